//! From the bytes of a rig file to rigs, or to what is wrong and where.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;
use verbatim_device::Defect;
use verbatim_tester::Route;
use verbatim_wire::{Lid, MKey, SubnetTimeout};

use super::nearest::{hint, list};
use super::{DEFAULT_WINDOW, ProfileName, RigConfig, RigFileError, RigKind, VirtualConfig};

const KINDS: [&str; 3] = ["virtual", "umad", "model"];
/// Hops that a directed route may have.
const MAX_HOPS: usize = 63;
/// The largest LID of one port alone.
const LAST_UNICAST_LID: i64 = 0xBFFF;

/// All that is looked at before the version is known.
#[derive(Deserialize)]
struct Versioned {
    config_version: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(rename = "config_version")]
    _config_version: i64,
    #[serde(default)]
    rig: Vec<Spanned<RawRig>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRig {
    name: Spanned<String>,
    kind: Spanned<String>,
    m_key: Option<Spanned<Number>>,
    shared_subnet: Option<bool>,
    window: Option<Spanned<i64>>,
    subnet_timeout: Option<Spanned<i64>>,
    route: Option<Spanned<String>>,
    lid: Option<Spanned<i64>>,
    device: Option<Spanned<String>>,
    port: Option<Spanned<i64>>,
    socket: Option<Spanned<String>>,
    profile: Option<Spanned<String>>,
    seed: Option<Spanned<i64>>,
    defects: Option<Spanned<Vec<Spanned<String>>>>,
    env: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
}

/// An integer, or one in a string: TOML's integers end at 2^63.
struct Number(Result<u64, String>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer, or a string such as \"0x1234\"")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(u64::try_from(value).map_err(|_| value.to_string())))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let digits = text.replace('_', "");
                let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
                    Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
                    Some(_) => None,
                    None if digits.starts_with('+') => None,
                    None => digits.parse().ok(),
                };
                Ok(Number(value.ok_or_else(|| format!("{text:?}"))))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

/// What is wrong, and which bytes of the file are.
struct Wrong {
    span: Range<usize>,
    what: String,
}

fn wrong<T>(span: Range<usize>, what: impl Into<String>) -> Result<T, Wrong> {
    let what = what.into();
    Err(Wrong { span, what })
}

pub(super) fn rigs(bytes: &[u8], path: &Path) -> Result<Vec<RigConfig>, RigFileError> {
    let result = match core::str::from_utf8(bytes) {
        Ok(text) => rigs_of(text, path),
        Err(error) => {
            let at = error.valid_up_to();
            let byte = bytes.get(at).copied().unwrap_or_default();
            wrong(
                at..at,
                format!("byte {byte:#04x} is not UTF-8; a rig file is UTF-8 text"),
            )
        }
    };
    result.map_err(|Wrong { span, what }| {
        let (line, column) = place(bytes, span.start);
        RigFileError::Wrong {
            path: path.into(),
            line,
            column,
            what,
        }
    })
}

/// Line and column of a byte, both from 1 on; the column in characters.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = &bytes[..at.min(bytes.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = before.iter().filter(|&&byte| byte == b'\n').count();
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count();
    (lines + 1, column + 1)
}

fn rigs_of(text: &str, path: &Path) -> Result<Vec<RigConfig>, Wrong> {
    let versioned: Versioned = toml::from_str(text).map_err(|error| in_words(&error))?;
    match versioned.config_version {
        None => {
            return wrong(
                0..0,
                "there is no config_version; expected `config_version = 1` at the top",
            );
        }
        Some(version) if *version.get_ref() != 1 => {
            return wrong(
                version.span(),
                format!(
                    "config_version is {}, this program knows 1; use a newer program, or write the file for version 1",
                    version.get_ref()
                ),
            );
        }
        Some(_) => {}
    }
    let raw: RawFile = toml::from_str(text).map_err(|error| in_words(&error))?;
    let mut rigs: Vec<RigConfig> = Vec::new();
    for rig in raw.rig {
        let (header, rig) = (rig.span(), rig.into_inner());
        let name = rig.name.clone();
        let rig = check(rig, header, path)?;
        if rigs.iter().any(|known| known.name == rig.name) {
            return wrong(
                name.span(),
                format!("a rig {:?} is there already; rename one of them", rig.name),
            );
        }
        rigs.push(rig);
    }
    Ok(rigs)
}

/// What the TOML library says, with the nearest known key.
fn in_words(error: &toml::de::Error) -> Wrong {
    let span = error.span().unwrap_or(0..0);
    let message = error.message().replace('\n', "; ");
    let unknown = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.rsplit_once("`, expected "));
    let what = match unknown {
        Some((key, expected)) => {
            let known: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
            format!("unknown key {key:?}{}", hint(key, &known))
        }
        None => message
            .replacen("missing field", "missing key", 1)
            .replace("expected i64", "expected an integer"),
    };
    Wrong { span, what }
}

fn check(rig: RawRig, header: Range<usize>, path: &Path) -> Result<RigConfig, Wrong> {
    let name = rig.name.get_ref();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=64).contains(&name.len()) || !name.bytes().all(fits) || name.starts_with(['.', '-']) {
        return wrong(
            rig.name.span(),
            format!(
                "{name:?} is no name of a rig; expected 1 to 64 letters, digits, \"-\", \"_\", \".\", first a letter, a \
                 digit or \"_\""
            ),
        );
    }
    let kind = rig.kind.get_ref().as_str();
    if !KINDS.contains(&kind) {
        return wrong(
            rig.kind.span(),
            format!(
                "no kind of rig is called {kind:?}{}; kinds are {}",
                hint(kind, &KINDS),
                list(&KINDS)
            ),
        );
    }
    only_its_own_keys(&rig, kind)?;
    let m_key = MKey(rig.m_key.as_ref().map_or(Ok(0), m_key)?);
    let config = RigConfig {
        name: name.clone(),
        route: route(&rig, kind, header.clone())?,
        m_key,
        shared_subnet: rig.shared_subnet.unwrap_or(false),
        window: within(rig.window.as_ref(), "window", 1, 64)?.unwrap_or(DEFAULT_WINDOW),
        subnet_timeout: within(rig.subnet_timeout.as_ref(), "subnet_timeout", 0, 20)?.map(SubnetTimeout),
        env: environment(rig.env.as_ref())?,
        kind: match kind {
            "umad" => RigKind::Umad {
                device: required(rig.device.as_ref(), "device", kind, &header)?,
                port: match within(rig.port.as_ref(), "port", 1, 254)? {
                    Some(port) => port,
                    None => return missing("port", kind, header),
                },
            },
            "model" => {
                let socket = required(rig.socket.as_ref(), "socket", kind, &header)?;
                let base = path.parent().unwrap_or(Path::new("/"));
                RigKind::Model {
                    socket: base.join(socket),
                }
            }
            _ => RigKind::Virtual(virtual_config(&rig, m_key)?),
        },
    };
    Ok(config)
}

/// Keys of another kind are mistakes, not decoration.
fn only_its_own_keys(rig: &RawRig, kind: &str) -> Result<(), Wrong> {
    fn at<T>(key: Option<&Spanned<T>>) -> Option<Range<usize>> {
        key.map(Spanned::span)
    }
    let keys = [
        ("device", "umad", at(rig.device.as_ref())),
        ("port", "umad", at(rig.port.as_ref())),
        ("env", "umad", at(rig.env.as_ref())),
        ("socket", "model", at(rig.socket.as_ref())),
        ("profile", "virtual", at(rig.profile.as_ref())),
        ("seed", "virtual", at(rig.seed.as_ref())),
        ("defects", "virtual", at(rig.defects.as_ref())),
    ];
    for (key, owner, span) in keys {
        if let Some(span) = span.filter(|_| owner != kind) {
            return wrong(
                span,
                format!("{key:?} is a key of rigs of kind {owner:?}, and this one is {kind:?}; remove it"),
            );
        }
    }
    Ok(())
}

fn missing<T>(key: &str, kind: &str, header: Range<usize>) -> Result<T, Wrong> {
    wrong(header, format!("missing key {key:?}; a rig of kind {kind:?} needs it"))
}

fn required(text: Option<&Spanned<String>>, key: &str, kind: &str, header: &Range<usize>) -> Result<String, Wrong> {
    match text {
        None => missing(key, kind, header.clone()),
        Some(text) if text.get_ref().is_empty() || text.get_ref().contains('\0') => {
            wrong(text.span(), format!("{key:?} is empty, or has a NUL in it"))
        }
        Some(text) => Ok(text.get_ref().clone()),
    }
}

fn within<N: TryFrom<i64>>(value: Option<&Spanned<i64>>, key: &str, low: i64, high: i64) -> Result<Option<N>, Wrong> {
    let Some(value) = value else { return Ok(None) };
    let number = Some(*value.get_ref()).filter(|number| (low..=high).contains(number));
    match number.and_then(|number| N::try_from(number).ok()) {
        Some(number) => Ok(Some(number)),
        None => wrong(
            value.span(),
            format!("{key:?} is {}; expected {low} to {high}", value.get_ref()),
        ),
    }
}

fn m_key(number: &Spanned<Number>) -> Result<u64, Wrong> {
    number.get_ref().0.clone().or_else(|seen| {
        wrong(
            number.span(),
            format!("\"m_key\" is {seen}; expected 64 bits, such as \"0x0123456789abcdef\", or 0 for none"),
        )
    })
}

/// The route in the notation of infiniband-diags: "0,1" leaves our adapter by port 1.
fn route(rig: &RawRig, kind: &str, header: Range<usize>) -> Result<Route, Wrong> {
    match (&rig.route, &rig.lid) {
        (Some(_), Some(lid)) => wrong(lid.span(), "\"route\" and \"lid\" are both there; keep one of them"),
        (None, None) if kind == "umad" => wrong(
            header,
            "neither \"route\" nor \"lid\" is there; write `route = \"0,1\"` for a device on the other end of the \
             cable at port 1",
        ),
        (None, None) => Ok(Route::Directed(vec![1])),
        (None, lid @ Some(_)) => match within(lid.as_ref(), "lid", 1, LAST_UNICAST_LID)? {
            Some(lid) => Ok(Route::Lid(Lid(lid))),
            None => Ok(Route::Directed(vec![1])),
        },
        (Some(route), None) => {
            let bad = |what: &str| {
                wrong(
                    route.span(),
                    format!(
                        "route {:?} {what}; expected \"0\" for our own adapter, then the ports to leave by, such as \
                         \"0,1\"",
                        route.get_ref()
                    ),
                )
            };
            let hops: Result<Vec<u8>, _> = route.get_ref().split(',').map(|hop| u8::from_str(hop.trim())).collect();
            let Ok(hops) = hops else {
                return bad("is not a list of port numbers");
            };
            match hops.as_slice() {
                [0] => bad(
                    "has no hop: it ends at our own port, where an SMP is answered without a look at its M_Key and no \
                     device under test is",
                ),
                [0, ports @ ..] if ports.contains(&0) || ports.contains(&255) => {
                    bad("leaves by a port that no adapter or switch has (0 and 255 are none)")
                }
                [0, ports @ ..] if ports.len() > MAX_HOPS => bad("has more than 63 hops"),
                [0, ports @ ..] if kind != "umad" && ports != [1] => {
                    bad("does not end at the model, which is cabled to port 1: its route is \"0,1\"")
                }
                [0, ports @ ..] => Ok(Route::Directed(ports.to_vec())),
                _ => bad("does not begin with 0"),
            }
        }
    }
}

fn environment(env: Option<&Spanned<BTreeMap<String, Spanned<String>>>>) -> Result<BTreeMap<String, String>, Wrong> {
    let Some(env) = env else {
        return Ok(BTreeMap::new());
    };
    let pairs = env.get_ref().iter().map(|(name, value)| {
        if name.is_empty() || name.contains(['=', '\0']) || value.get_ref().contains('\0') {
            return wrong(
                value.span(),
                format!("{name:?} cannot be an environment variable with this value: \"=\" in its name, or a NUL"),
            );
        }
        Ok((name.clone(), value.get_ref().clone()))
    });
    pairs.collect()
}

fn virtual_config(rig: &RawRig, m_key: MKey) -> Result<VirtualConfig, Wrong> {
    let profile = match &rig.profile {
        None => ProfileName::default(),
        Some(name) => name
            .get_ref()
            .parse()
            .or_else(|what: String| wrong(name.span(), what))?,
    };
    let mut defects = Vec::new();
    for name in rig.defects.iter().flat_map(Spanned::get_ref) {
        defects.push(defect(name.get_ref()).or_else(|what| wrong(name.span(), what))?);
    }
    Ok(VirtualConfig {
        profile,
        seed: within(rig.seed.as_ref(), "seed", 0, i64::MAX)?,
        defects,
        m_key,
    })
}

/// A defect of the device model, by its name.
///
/// # Errors
/// When there is none, with the nearest one.
pub fn defect(name: &str) -> Result<Defect, String> {
    name.parse().map_err(|_| {
        let names: Vec<_> = Defect::ALL.iter().map(|defect| defect.name()).collect();
        format!("no defect is called {name:?}{}", hint(name, &names))
    })
}
