"""A session with a real telnet daemon on this machine: telnet.py LOG COMMAND CLIENT... logs what the client shows; it gets the daemon's
port in place of PORT."""
import os, select, socket, subprocess, sys, time

log, command = sys.argv[1:3]
limit = time.monotonic() + 60
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1)
port = str(listener.getsockname()[1])
client = subprocess.Popen(
    [word.replace("PORT", port) for word in sys.argv[3:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
)
connection, _ = listener.accept()
daemon = subprocess.Popen(
    ["/usr/sbin/telnetd", "-h", "-E", "/bin/sh"], stdin=connection, stdout=connection, stderr=connection
)
connection.close()
seen = b""


def read(until):
    """Reads on until the client has shown `until`, or ends."""
    global seen
    while until is None or until not in seen:
        assert time.monotonic() < limit, f"{until} does not come: {seen[-300:]}"
        if select.select([client.stdout], [], [], 1)[0]:
            part = os.read(client.stdout.fileno(), 65536)
            if not part:
                return
            seen += part


def type_in(words):
    client.stdin.write(words.encode() + b"\n")
    client.stdin.flush()


read(b"#" if os.getuid() == 0 else b"$")
type_in(command + "; echo status $?, ov''er")  # what is typed is shown as well
read(b", over\r\n")
type_in("exit")
read(None)
client.wait()
daemon.wait()
with open(log, "wb") as out:
    out.write(seen)
