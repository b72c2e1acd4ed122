//! The addresses of this host's kernel, in the network namespace of the calling thread.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fs;

/// The kernel's IPv4 routes as a tree. An address of the host is a leaf followed by the line "/32 host LOCAL".
const IPV4: &str = "/proc/thread-self/net/fib_trie";
/// The kernel's IPv6 addresses, one per line: 32 hexadecimal digits, four numbers, the interface.
const IPV6: &str = "/proc/thread-self/net/if_inet6";

/// Returns whether this host's kernel has the address `ip`. A link-local address must be on `interface`. Returns false
/// if the kernel's files cannot be read. The function does not try to bind a socket, because a namespace without routes
/// lets a process bind any address.
pub(crate) fn kernel_has(ip: IpAddr, interface: &str) -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    match ip {
        IpAddr::V4(ip) => tree_has(&read(IPV4), ip),
        IpAddr::V6(ip) => list_has(&read(IPV6), ip, interface),
    }
}

fn tree_has(tree: &str, ip: Ipv4Addr) -> bool {
    let mut leaf: Option<Ipv4Addr> = None;
    for line in tree.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(address) => leaf = address.parse().ok(),
            None if line == "/32 host LOCAL" && leaf == Some(ip) => return true,
            None => {}
        }
    }
    false
}

fn list_has(list: &str, ip: Ipv6Addr, interface: &str) -> bool {
    list.lines().any(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let here = !ip.is_unicast_link_local() || words.last() == Some(interface);
        address == Some(ip.to_bits()) && here
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.0\n        \
                        /24 link UNICAST\nLocal:\n  +-- 0.0.0.0/0 2 0 2\n     |-- 10.0.0.2\n        /32 host LOCAL\n     \
                        |-- 10.0.0.255\n        /32 link BROADCAST\n";
    const LIST: &str = "fe800000000000000011220000000001 02 40 20 80     eth0\n\
                        20010db8000000000000000000000007 02 40 00 80     eth0\n";

    #[test]
    fn finds_ipv4_host_addresses_only() {
        let has = |ip: &str| tree_has(TREE, ip.parse().unwrap());
        assert!(has("10.0.0.2"));
        assert!(!has("10.0.0.0") && !has("10.0.0.255") && !has("10.0.0.3"));
    }

    #[test]
    fn link_local_address_needs_its_interface() {
        let has = |ip: &str, interface: &str| list_has(LIST, ip.parse().unwrap(), interface);
        assert!(has("2001:db8::7", "eth0") && has("2001:db8::7", "eth1"));
        assert!(has("fe80::11:2200:0:1", "eth0") && !has("fe80::11:2200:0:1", "eth1"));
        assert!(!has("2001:db8::8", "eth0"));
    }

    #[test]
    fn reads_this_kernels_files() {
        assert!(!kernel_has("192.0.2.77".parse().unwrap(), "lo"));
        // A namespace whose loopback interface is down has no 127.0.0.1.
        let up = fs::read_to_string(IPV4).is_ok_and(|tree| tree.contains("127.0.0.1"));
        assert_eq!(kernel_has("127.0.0.1".parse().unwrap(), "lo"), up);
    }
}
