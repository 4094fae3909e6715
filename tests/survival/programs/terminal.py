"""A program on a terminal, and what arrives at the other end of the line.

terminal.py LOG DEVICE HOST LINE PROGRAM...

DEVICE and HOST are settings of the two terminals, words of stty: raw, -opost, istrip, icanon ... LINE is what happens between them:
clean; parity (an even one in the high bit); noise=N (one of N bytes is another one); text=N (a message of a kernel after N bytes or more);
rate=N (bytes a second); echo=N (the first N bytes are sent back as well).
"""
import os, pty, random, select, subprocess, sys, termios, threading, time

log, device, host, line = sys.argv[1:5]
program = sys.argv[5:]


def terminal(settings):
    master, slave = pty.openpty()
    subprocess.run(["stty", "sane", "-echo", *settings.split()], stdin=slave, check=True)
    return master, slave


def carry(come, go):
    """Carries bytes until the program's terminal is closed."""
    kind, _, value = line.partition("=")
    chance = random.Random(1)
    count = 0
    due = 0
    while True:
        try:
            part = os.read(come, 1024)
        except OSError:
            break
        if not part:
            break
        if kind == "parity":
            part = bytes(byte | (bin(byte).count("1") & 1) << 7 for byte in part)
        if kind == "noise":
            part = bytes(chance.randrange(256) if chance.randrange(int(value)) == 0 else byte for byte in part)
        if kind == "rate":
            # What is slept too long now is slept less later, but nothing is saved up while there is nothing to carry.
            due = max(due, time.monotonic() - 0.05) + len(part) / int(value)
            time.sleep(max(0, due - time.monotonic()))
        if kind == "echo" and count < int(value):
            count += len(part)
            os.set_blocking(come, False)
            try:
                os.write(come, part)
            except BlockingIOError:
                pass  # the program reads nothing
            os.set_blocking(come, True)
        if kind == "text":
            at = chance.randrange(len(part))
            is_due = count + at >= int(value)
            count = len(part) - at if is_due else count + len(part)
            if is_due:
                part = part[:at] + b"[   12.345678] usb 1-1: new device\r\n" + part[at:]
        while part:
            part = part[os.write(go, part):]


def keep(come):
    """Keeps what comes over the host's terminal until nothing is on its way."""
    with open(log, "wb") as out:
        while True:
            is_over = not carrier.is_alive()
            if select.select([come], [], [], 0.1)[0]:
                out.write(os.read(come, 65536))
            elif is_over:
                return


device_master, device_slave = terminal(device)
host_master, host_slave = terminal(host)
reader = threading.Thread(target=keep, args=(host_slave,))
carrier = threading.Thread(target=carry, args=(device_master, host_master))
carrier.start()
reader.start()
child = subprocess.Popen(program, stdin=device_slave, stdout=device_slave, stderr=device_slave)
os.close(device_slave)
status = child.wait()
carrier.join(60)
reader.join(60)
sys.exit(status)
