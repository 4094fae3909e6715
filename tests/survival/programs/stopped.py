"""A program whose terminal is stopped by ^S until it is through its first phase: stopped.py LOG PROGRAM... logs what the terminal gives."""
import os, pty, select, subprocess, sys, threading

log = sys.argv[1]
master, slave = pty.openpty()
subprocess.run(["stty", "sane", "-echo"], stdin=slave, check=True)
os.write(master, b"\x13")
# The terminal has it when it has taken what came after it.
os.write(master, b"\n")
assert os.read(slave, 1) == b"\n"
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[slave], env={**os.environ, "HEAPWIRE_OUT": f"fd:{slave}"})
assert child.stdout.readline() == b"first\n"
is_over = False


def keep():
    with open(log, "wb") as out:
        while True:
            last = is_over
            if select.select([master], [], [], 0.1)[0]:
                out.write(os.read(master, 65536))
            elif last:
                return


reader = threading.Thread(target=keep)
os.write(master, b"\x11")
reader.start()
child.stdin.write(b"\n")
child.stdin.flush()
status = child.wait()
is_over = True
reader.join(60)
sys.exit(status)
