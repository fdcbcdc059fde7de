"""Sends ICMP echo requests into a TUN device, as a program with addresses of its own would, and waits for the answer.

    tun_ping.py DEVICE FROM TO

Exit code 0 if the answer comes to FROM from TO, 1 if none comes. Packets are sent again, as the
neighbours have to be found first.
"""

import fcntl
import os
import select
import socket
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, IFF_MULTI_QUEUE = 0x400454CA, 1, 0x1000, 0x100


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo_request(source, target):
    if source.version == 4:
        icmp = struct.pack("!BBHHH", 8, 0, 0, 8684, 1) + b"anabranch"
        icmp = icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(icmp), 1, 0, 64, 1, 0) + source.raw + target.raw
        return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + icmp
    icmp = struct.pack("!BBHHH", 128, 0, 0, 8684, 1) + b"anabranch"
    pseudo = source.raw + target.raw + struct.pack("!IHBB", len(icmp), 0, 0, 58)
    icmp = icmp[:2] + struct.pack("!H", checksum(pseudo + icmp)) + icmp[4:]
    return struct.pack("!IHBB", 0x60000000, len(icmp), 58, 64) + source.raw + target.raw + icmp


def is_answer(packet, source, target):
    if packet[0] >> 4 != source.version:
        return False
    if source.version == 4:
        return packet[12:16] == target.raw and packet[16:20] == source.raw and packet[9] == 1 and packet[20] == 0
    return packet[8:24] == target.raw and packet[24:40] == source.raw and packet[6] == 58 and packet[40] == 129


class Address:
    def __init__(self, text):
        self.version = 6 if ":" in text else 4
        self.raw = socket.inet_pton(socket.AF_INET6 if self.version == 6 else socket.AF_INET, text)


def main():
    device, source, target = sys.argv[1], Address(sys.argv[2]), Address(sys.argv[3])
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI | IFF_MULTI_QUEUE))
    for _ in range(10):
        os.write(tun, echo_request(source, target))
        deadline = time.monotonic() + 0.3
        while (left := deadline - time.monotonic()) > 0:
            if select.select([tun], [], [], left)[0] and is_answer(os.read(tun, 65536), source, target):
                return 0
    return 1


sys.exit(main())
