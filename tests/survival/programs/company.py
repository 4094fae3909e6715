# Threads of an interpreter, a child that is forked and one that is spawned.
import ctypes, json, os, subprocess, sys, threading

def work():
    for at in range(200):
        json.loads(json.dumps({"numbers": [at] * 100}))

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
child = os.fork()
if child == 0:
    work()
    os._exit(7)
status = os.waitpid(child, 0)[1] >> 8
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc(50001)
said = subprocess.run([sys.executable, "-c", "print(5)"], capture_output=True).stdout
print("done", status, int(said))
