//! The parser of rigs of kind `virtual`.

use toml::Spanned;
use verbatim_device::Defect;
use verbatim_device::link::LinkDefect;
use verbatim_device::rc::RcDefect;
use verbatim_wire::MKey;

use super::either::Seed;
use super::{RawRig, Wrong, hint, within, wrong};
use crate::file::virtual_rig::{DISTURBANCES, LINK_CHOICES, NO_SEED, Names};
use crate::file::{DeviceSeed, ProfileName, VirtualConfig};

pub(super) fn config(rig: &RawRig, m_key: MKey) -> Result<VirtualConfig, Wrong> {
    let profile = match &rig.profile {
        None => ProfileName::default(),
        Some(name) => name
            .get_ref()
            .parse()
            .or_else(|what: String| wrong(name.span(), what))?,
    };
    let (mut defects, mut adapter_defects, mut link_defects) = (Vec::new(), Vec::new(), Vec::new());
    for name in rig.defects.iter().flat_map(Spanned::get_ref) {
        let words = name.get_ref();
        if let Ok(of_adapter) = words.parse::<RcDefect>() {
            adapter_defects.push(of_adapter);
        } else if let Ok(of_link) = words.parse::<LinkDefect>() {
            link_defects.push(of_link);
        } else {
            defects.push(defect(words).or_else(|what| wrong(name.span(), what))?);
        }
    }
    let yes = |key: Option<&Spanned<bool>>, otherwise| key.map_or(otherwise, |key| *key.get_ref());
    Ok(VirtualConfig {
        profile,
        seed: rig.seed.as_ref().map_or(Ok(DeviceSeed::OfRun), seed)?,
        defects,
        adapter_defects,
        link_defects,
        link_choices: named(rig.link_choices.as_ref(), "choice of the link layer", &LINK_CHOICES)?,
        disturbance: named(rig.disturbance.as_ref(), "disturbance", &DISTURBANCES)?,
        busy: within(rig.busy.as_ref(), "busy", 0, 16)?,
        infiniband: yes(rig.infiniband.as_ref(), false),
        ipv6: yes(rig.ipv6.as_ref(), false),
        rules_of_hardware: !yes(rig.simulated.as_ref(), true),
        m_key,
    })
}

fn seed(given: &Spanned<Seed>) -> Result<DeviceSeed, Wrong> {
    match given.get_ref() {
        Seed::Word(word) if word == NO_SEED => Ok(DeviceSeed::None),
        Seed::Word(word) => wrong(
            given.span(),
            format!("\"seed\" is {word:?}; expected a number, or {NO_SEED:?} for the profile as it is"),
        ),
        Seed::Is(number) => {
            let number = within(Some(&Spanned::new(given.span(), *number)), "seed", 0, i64::MAX)?;
            Ok(number.map_or(DeviceSeed::OfRun, DeviceSeed::Is))
        }
    }
}

fn named<T: Default, const N: usize>(
    given: Option<&Spanned<Vec<Spanned<String>>>>,
    what: &str,
    all: &Names<T, N>,
) -> Result<T, Wrong> {
    let mut made = T::default();
    for name in given.into_iter().flat_map(Spanned::get_ref) {
        let words = name.get_ref();
        let Some((_, place)) = all.iter().find(|(known, _)| known == words) else {
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            return wrong(
                name.span(),
                format!("no {what} is called {words:?}{}", hint(words, &names)),
            );
        };
        *place(&mut made) = true;
    }
    Ok(made)
}

/// Parses a defect of the device model's management agents.
///
/// # Errors
/// When no such defect exists; the error names the nearest one.
pub fn defect(name: &str) -> Result<Defect, String> {
    name.parse().map_err(|_| {
        if name.parse::<RcDefect>().is_ok() || name.parse::<LinkDefect>().is_ok() {
            return format!(
                "{name:?} is a defect of RC transport or of the link layer, which this model does not have; a rig of kind \
                 virtual does"
            );
        }
        let adapter = RcDefect::ALL.iter().map(|defect| defect.name());
        let others = adapter.chain(LinkDefect::ALL.iter().map(|defect| defect.name()));
        let names: Vec<_> = Defect::ALL.iter().map(|defect| defect.name()).chain(others).collect();
        format!("no defect is called {name:?}{}", hint(name, &names))
    })
}
