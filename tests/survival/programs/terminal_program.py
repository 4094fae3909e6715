"""A terminal program that keeps a log of a line, at whose other end a program runs.

terminal_program.py LOG KEYS TERMINAL_PROGRAM... -- PROGRAM...

LINE in the terminal program's words is the path of the host's end. KEYS, in Python's escapes, end it when its log has grown no more for a second.
"""
import fcntl, glob, os, pty, subprocess, sys, termios, threading, time

log, keys = sys.argv[1], sys.argv[2].encode().decode("unicode_escape").encode()
middle = sys.argv.index("--")
device_master, device_slave = pty.openpty()
host_master, host_slave = pty.openpty()
screen_master, screen_slave = pty.openpty()
subprocess.run(["stty", "sane", "-echo"], stdin=device_slave, check=True)
subprocess.run(["stty", "raw", "-echo"], stdin=host_slave, check=True)
subprocess.run(["stty", "sane", "rows", "24", "columns", "80"], stdin=screen_slave, check=True)
line = os.ttyname(host_slave)


def carry(come, go):
    while True:
        try:
            part = os.read(come, 4096)
        except OSError:
            return
        while part and go is not None:
            part = part[os.write(go, part):]


def opened():
    """Whether another process has the host's end open."""
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) == line and int(link.split("/")[2]) != os.getpid():
                return True
        except OSError:
            pass
    return False


def begin():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def size():
    return os.stat(log).st_size if os.path.exists(log) else 0


threading.Thread(target=carry, args=(screen_master, None), daemon=True).start()
words = [word.replace("LINE", line) for word in sys.argv[3:middle]]
terminal = subprocess.Popen(words, stdin=screen_slave, stdout=screen_slave, stderr=screen_slave, preexec_fn=begin, env={**os.environ, "TERM": "vt100"})
end = time.monotonic() + 30
while not opened():
    assert terminal.poll() is None and time.monotonic() < end, "the line was not opened"
    time.sleep(0.05)
carrier = threading.Thread(target=carry, args=(device_master, host_master))
carrier.start()
child = subprocess.Popen(sys.argv[middle + 1:], stdin=device_slave, stdout=device_slave, stderr=device_slave)
os.close(device_slave)
status = child.wait()
carrier.join(60)
last = -1
while last != size():
    last = size()
    time.sleep(1)
os.write(screen_master, keys)
try:
    terminal.wait(10)
except subprocess.TimeoutExpired:
    terminal.kill()
sys.exit(status)
