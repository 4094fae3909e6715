import java.util.zip.Deflater;

/** Threads of a virtual machine that allocate in C. */
public class Company {
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[8];
        for (int at = 0; at < threads.length; at++) {
            threads[at] = new Thread(() -> {
                for (int round = 0; round < 50; round++) {
                    Deflater deflater = new Deflater();
                    deflater.setInput(new byte[10000]);
                    deflater.finish();
                    deflater.deflate(new byte[20000]);
                    deflater.end();
                }
            });
            threads[at].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println("done");
    }
}
