"""Reads and makes RoCEv2 packets with scapy, one per line.

    oracle.py read              reads frames in hexadecimal from stdin, prints their fields and scapy's ICRC
    oracle.py make COUNT SEED   makes frames with random fields, prints them with their fields
"""

import random
import sys

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

BITS = {
    "opcode": 8, "solicited": 1, "migreq": 1, "version": 4, "pkey": 16, "fecn": 1, "becn": 1, "resv6": 6,
    "dqpn": 24, "ackreq": 1, "resv7": 7, "psn": 24,
}


def line(**values):
    print(" ".join(f"{name}={value}" for name, value in values.items()))


def seen(frame, packet):
    """Prints scapy's values of the fields, and the frame with the ICRC that scapy computes."""
    bth = packet[BTH]
    values = {name: bth.getfieldval(name) for name in [*BITS, "padcount"]}
    if bth.haslayer(AETH):
        values |= {"syndrome": bth[AETH].syndrome, "msn": bth[AETH].msn}
    rebuilt = packet.copy()
    rebuilt[BTH].icrc = None
    line(frame=frame.hex(), rebuilt=bytes(rebuilt).hex(), **values)


def made(random_bits):
    """Returns a packet with random fields. The opcode has no extended header other than AETH, the only one scapy
    knows."""
    values = {name: random_bits(bits) for name, bits in BITS.items()}
    values["opcode"] = [0x00, 0x04, 0x07, 0x11, 0x24][random_bits(8) % 5]
    layer = BTH(**values)
    if values["opcode"] == 0x11:
        layer /= AETH(syndrome=random_bits(8), msn=random_bits(24))
    else:
        layer /= Raw(random_bits(8 * 1024).to_bytes(1024, "big")[: 4 * (random_bits(8) + 1)])
    udp = UDP(sport=random_bits(16), dport=4791, chksum=random_bits(16))
    if random_bits(1):
        network = IP(
            tos=random_bits(8), ttl=random_bits(8), id=random_bits(16), flags="DF" if random_bits(1) else 0,
            src=f"10.{random_bits(8)}.0.1", dst=f"10.{random_bits(8)}.0.2",
        )
    else:
        network = IPv6(
            tc=random_bits(8), fl=random_bits(20), hlim=random_bits(8),
            src=f"fd00::{random_bits(16):x}", dst=f"fd00::{random_bits(16):x}",
        )
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / network / udp / layer)


def main():
    if sys.argv[1] == "read":
        for text in sys.stdin:
            frame = bytes.fromhex(text)
            seen(frame, Ether(frame))
    else:
        numbers = random.Random(int(sys.argv[3]))
        for _ in range(int(sys.argv[2])):
            frame = made(numbers.getrandbits)
            seen(frame, Ether(frame))


main()
