#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# far.py SECONDS PID ADDRESS PID ADDRESS: until it is killed, what the hosts of two processes (of `hosts run`) send each other takes SECONDS longer on
# its way. Prints "ready", or why not.
import ctypes, fcntl, os, select, struct, subprocess, sys, time

CLONE_NEWNET, TUNSETIFF, IFF_TUN_NO_PI = 0x40000000, 0x400454ca, 0x1001
name = "far%d" % os.getpid()


def tun(pid, own, other):
    """A descriptor for the packets from one host to the other."""
    with open("/proc/%s/ns/net" % pid) as ns:
        if ctypes.CDLL(None, use_errno=True).setns(ns.fileno(), CLONE_NEWNET) != 0:
            sys.exit("setns: " + os.strerror(ctypes.get_errno()))
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN_NO_PI))
    subprocess.run(["ip", "link", "set", name, "up"], check=True)
    subprocess.run(["ip", "route", "add", other + "/32", "dev", name, "src", own], check=True)
    return fd


if not os.path.exists("/dev/net/tun"):
    sys.exit("no /dev/net/tun")
seconds, (pid_a, a, pid_b, b) = float(sys.argv[1]), sys.argv[2:]
ends = [tun(pid_a, a, b), tun(pid_b, b, a)]
print("ready", flush=True)
packets = []  # on their way: when they arrive, to which end, bytes
while True:
    left = max(0, packets[0][0] - time.monotonic()) if packets else None
    for fd in select.select(ends, [], [], left)[0]:
        packets.append((time.monotonic() + seconds, ends[fd == ends[0]], os.read(fd, 65536)))
    while packets and packets[0][0] <= time.monotonic():
        _, fd, data = packets.pop(0)
        os.write(fd, data)
