//! Sends arbitrary packets at arbitrary times to the device model, which must not panic.
#![no_main]

use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use verbatim_device::{Device, Profile};

fuzz_target!(|input: (u8, Vec<(u16, Vec<u8>)>)| {
    let (seed, packets) = input;
    let mut device = Device::new(Profile::full().vary(seed.into()), &[]);
    let mut now = Duration::ZERO;
    for (wait, bytes) in packets.into_iter().take(64) {
        now += Duration::from_millis(wait.into());
        let mut mad = [0u8; 256];
        let length = bytes.len().min(256);
        mad[..length].copy_from_slice(&bytes[..length]);
        device.handle(now, 1, &bytes);
        device.handle(now, 1, &mad);
        while let Some(at) = device.poll_at().filter(|at| *at <= now) {
            device.tick(at.max(now));
            while device.poll_transmit().is_some() {}
        }
        while device.poll_transmit().is_some() {}
    }
});
