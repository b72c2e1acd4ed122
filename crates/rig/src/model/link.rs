//! The cable between tester and device, with the interfaces at both ends (architecture 14.2.2).

use verbatim_wire::{DrSmp, Layout, Mad};

use super::process::PORT;

/// Returns a MAD as it leaves the sender's port, or the reason why the MAD does not reach this device.
pub(super) fn leaves(mad: &Mad) -> Result<Mad, &'static str> {
    if !mad.is_directed() {
        return Ok(*mad);
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    if smp.direction() || smp.hop_pointer() != 0 {
        return Err("a directed-route SMP that is not at its start (HopPointer 0, D 0)");
    }
    if smp.hop_count() == 0 {
        return Err("a directed-route SMP without a hop: it is for its sender's own port");
    }
    if smp.initial_path(1) != PORT {
        return Err("a directed-route SMP that leaves by a port other than 1: only port 1 has a cable");
    }
    Ok(with(&smp.with_hop_pointer(1), mad))
}

/// Returns a MAD as the receiver's port hands it to its program.
pub(super) fn arrives(mad: &Mad) -> Mad {
    if !mad.is_directed() {
        return *mad;
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    if smp.direction() && smp.hop_pointer() == 1 {
        with(&smp.with_hop_pointer(0), mad)
    } else {
        *mad
    }
}

fn with(smp: &DrSmp, otherwise: &Mad) -> Mad {
    Mad::try_from(smp.bytes()).unwrap_or(*otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_wire::{AttributeId, Method};

    fn get(path: &[u8]) -> Mad {
        Mad::directed(Method::GET, AttributeId::NODE_INFO, 0, path)
    }

    #[test]
    fn one_hop_smp_arrives_at_end_of_route() {
        let there = leaves(&get(&[1])).unwrap();
        assert_eq!((there.bytes()[6], there.bytes()[7]), (1, 1));
        let gmp = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0);
        assert_eq!((leaves(&gmp).unwrap(), arrives(&gmp)), (gmp, gmp));
    }

    #[test]
    fn response_ends_with_hop_pointer_0() {
        let mut answer = get(&[1]).with_method(Method::GET_RESP);
        answer.bytes_mut()[4] |= 0x80;
        answer.bytes_mut()[6] = 1;
        assert_eq!(arrives(&answer).bytes()[6], 0);
    }

    #[test]
    fn rejects_smps_for_other_devices() {
        let mut under_way = get(&[1]);
        under_way.bytes_mut()[6] = 1;
        for mad in [get(&[]), get(&[2]), under_way] {
            assert!(leaves(&mad).is_err(), "{mad:?}");
        }
    }
}
