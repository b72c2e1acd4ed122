//! The kernel's umad on a RoCE port: general management over IPv6 GIDs.

use crate::rxe::guest::{gid_index, in_machine, run};

#[test]
fn unanswered_gmp_returns_once() {
    in_machine(|machine| {
        let index = gid_index(machine, "rxe1", "fd00:0000:0000:0000:0000:0000:0000:0002");
        // The program checks the facts itself. The requests go from rxe1 to rxe0, and arrive at veth0.
        let text = run(machine, &format!("umad_gmp rxe1 1 {index} fd00::1 veth0 2>&1"));
        eprintln!("{text}");
        for fact in [
            "subnet management: class 0x81 refused",
            "answered: GetResp(0x0001) status 0x000c",
            "answered: GetResp(0x0012) status 0x000c",
            "low 32 bits of the transaction id kept",
            "returned: once, status 110",
            "on the wire once",
        ] {
            assert!(text.contains(fact), "{fact:?} is missing in: {text}");
        }
    });
}
