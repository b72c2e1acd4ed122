//! The parser of rig files. Errors have the place in the file.

mod either;
mod keys;
mod peer;
mod slow;
mod virtual_rig;

use core::ops::Range;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use verbatim_catalog::Register;
use verbatim_tester::{ACK_TIMEOUT_LEAST, Route};
use verbatim_wire::{Lid, MKey, SubnetTimeout};

use self::either::{Number, Seed, Socket};
use super::hint::{hint, list};
use super::{DEFAULT_WINDOW, KnownOfDut, RigConfig, RigFileError, RigKind, RigSource};

pub use virtual_rig::defect;

const KINDS: [&str; 5] = ["virtual", "umad", "model", "packet", "verbs"];
/// The longest directed route, in hops.
const MAX_HOPS: usize = 63;
/// The largest unicast LID.
const LAST_UNICAST_LID: i64 = 0xBFFF;

/// The version alone. It is checked before all other keys, because an unknown version may have other keys.
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
    shared_subnet: Option<Spanned<bool>>,
    window: Option<Spanned<i64>>,
    subnet_timeout: Option<Spanned<i64>>,
    assign_lid: Option<Spanned<i64>>,
    write_counters: Option<Spanned<bool>>,
    may_crash: Option<Spanned<bool>>,
    route: Option<Spanned<String>>,
    lid: Option<Spanned<i64>>,
    device: Option<Spanned<String>>,
    port: Option<Spanned<i64>>,
    socket: Option<Spanned<Socket>>,
    profile: Option<Spanned<String>>,
    seed: Option<Spanned<Seed>>,
    defects: Option<Spanned<Vec<Spanned<String>>>>,
    link_choices: Option<Spanned<Vec<Spanned<String>>>>,
    disturbance: Option<Spanned<Vec<Spanned<String>>>>,
    busy: Option<Spanned<i64>>,
    infiniband: Option<Spanned<bool>>,
    verbs: Option<Spanned<bool>>,
    ipv6: Option<Spanned<bool>>,
    simulated: Option<Spanned<bool>>,
    env: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    #[serde(default)]
    labels: Vec<Spanned<String>>,
    #[serde(default)]
    deviations: Vec<Spanned<String>>,
    interface: Option<Spanned<String>>,
    mac: Option<Spanned<String>>,
    ip: Option<Spanned<String>>,
    dut_ip: Option<Spanned<String>>,
    gid_index: Option<Spanned<i64>>,
    dut_gid_index: Option<Spanned<i64>>,
    agent: Option<Spanned<String>>,
    agent_ca: Option<Spanned<String>>,
    agent_cert: Option<Spanned<String>>,
    agent_key: Option<Spanned<String>>,
    agent_name: Option<Spanned<String>>,
    dut_device: Option<Spanned<String>>,
    dut_ack_timeout_least: Option<Spanned<i64>>,
    dut_out_of_order: Option<Spanned<bool>>,
    reset: Option<Spanned<Vec<String>>>,
    reset_within: Option<Spanned<i64>>,
    reset_when: Option<Spanned<String>>,
    dut_console: Option<Spanned<String>>,
    tester_console: Option<Spanned<String>>,
    time_scale: Option<Spanned<i64>>,
    time_scale_least: Option<Spanned<i64>>,
    agent_within: Option<Spanned<i64>>,
    send_within: Option<Spanned<i64>>,
}

/// An error, with its place in the file as a range of bytes.
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

/// Returns line and column of a byte, both counted from 1; the column in characters.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = &bytes[..at.min(bytes.len())];
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = before.iter().filter(|&&byte| byte == b'\n').count();
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count();
    (lines + 1, column + 1)
}

/// Parses a rig file with one rig. An error has the offset of the wrong byte.
pub(super) fn only_rig(text: &str) -> Result<RigConfig, (usize, String)> {
    let rigs = rigs_of(text, Path::new("")).map_err(|Wrong { span, what }| (span.start, what))?;
    rigs.into_iter().next().ok_or_else(|| (0, "the file has no rig".into()))
}

fn rigs_of(text: &str, path: &Path) -> Result<Vec<RigConfig>, Wrong> {
    let versioned: Versioned = toml::from_str(text).map_err(|error| in_words(&error))?;
    match versioned.config_version {
        None => {
            return wrong(
                0..0,
                "config_version is missing; expected `config_version = 1` at the top",
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
                format!("two rigs are called {:?}; rename one of them", rig.name),
            );
        }
        rigs.push(rig);
    }
    Ok(rigs)
}

/// Rewords an error of the TOML library. Suggests the nearest known key for an unknown one.
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
            .replace("expected i64", "expected an integer")
            .replace(
                "invalid type: map, expected a sequence",
                "a table by itself; each rig begins with [[rig]], and its name is a key",
            ),
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
                "{name:?} is not a valid rig name; expected 1 to 64 letters, digits, \"-\", \"_\", \".\", first a \
                 letter, a digit or \"_\""
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
    keys::only_its_own(&rig, kind)?;
    let m_key = MKey(rig.m_key.as_ref().map_or(Ok(0), m_key)?);
    let at = peer::At {
        file: path,
        kind,
        header: header.clone(),
    };
    let config = RigConfig {
        name: name.clone(),
        route: route(&rig, kind, header.clone())?,
        m_key,
        shared_subnet: rig.shared_subnet.as_ref().is_some_and(|shared| *shared.get_ref()),
        window: within(rig.window.as_ref(), "window", 1, 64)?.unwrap_or(DEFAULT_WINDOW),
        subnet_timeout: within(rig.subnet_timeout.as_ref(), "subnet_timeout", 0, 20)?.map(SubnetTimeout),
        assign_lid: assign_lid(&rig)?,
        write_counters: rig.write_counters.as_ref().is_some_and(|may| *may.get_ref()),
        may_crash: rig.may_crash.as_ref().is_some_and(|may| *may.get_ref()),
        env: environment(rig.env.as_ref())?,
        labels: labels(&rig.labels)?,
        deviation_files: deviation_files(&rig.deviations, path)?,
        deviations: Register::default(),
        slow: slow::slowness(&rig)?,
        reset: slow::reset(&rig, path)?,
        consoles: slow::consoles(&rig, path),
        known: KnownOfDut {
            ack_timeout_least: within(rig.dut_ack_timeout_least.as_ref(), ACK_TIMEOUT_LEAST, 0, 31)?.unwrap_or(0),
            out_of_order: rig.dut_out_of_order.as_ref().is_some_and(|may| *may.get_ref()),
        },
        source: RigSource::default(),
        kind: match kind {
            "umad" => RigKind::Umad {
                device: required(rig.device.as_ref(), "device", kind, &header)?,
                port: match within(rig.port.as_ref(), "port", 1, 254)? {
                    Some(port) => port,
                    None => return missing("port", kind, header),
                },
                agent: peer::agent_if_any(&rig, &at)?.map(Box::new),
                verbs: verbs(&rig)?,
            },
            "model" => RigKind::Model {
                socket: model_socket(&rig, kind, &header, path)?,
            },
            "packet" => RigKind::Packet(Box::new(peer::packet(&rig, &at)?)),
            "verbs" => RigKind::Verbs(Box::new(peer::verbs(&rig, &at)?)),
            _ => RigKind::Virtual(virtual_rig::config(&rig, m_key)?),
        },
    };
    Ok(config)
}

fn labels(given: &[Spanned<String>]) -> Result<Vec<String>, Wrong> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=:/".contains(&byte);
    let label = |given: &Spanned<String>| {
        let label = given.get_ref();
        if (1..=64).contains(&label.len()) && label.bytes().all(fits) && !label.starts_with("kind=") {
            return Ok(label.clone());
        }
        wrong(
            given.span(),
            format!(
                "{label:?} is not a valid label; expected 1 to 64 letters, digits, \"-\", \"_\", \".\", \":\", \"/\", \
                 \"=\", such as \"25g\" or \"fw=1.2\"; each rig has the label \"kind=KIND\" by itself"
            ),
        )
    };
    given.iter().map(label).collect()
}

fn verbs(rig: &RawRig) -> Result<bool, Wrong> {
    match &rig.verbs {
        Some(key) if *key.get_ref() && rig.agent.is_none() => wrong(
            key.span(),
            "\"verbs\" needs the agent on the DUT's host: add `agent = \"HOST:7000\"` with its certificates",
        ),
        key => Ok(key.as_ref().is_some_and(|key| *key.get_ref())),
    }
}

fn deviation_files(given: &[Spanned<String>], file: &Path) -> Result<Vec<PathBuf>, Wrong> {
    let path = |given: &Spanned<String>| match given.get_ref().as_str() {
        path if path.is_empty() || path.contains('\0') => {
            wrong(given.span(), "a path in \"deviations\" is empty, or has a NUL in it")
        }
        path => Ok(below(file, path)),
    };
    given.iter().map(path).collect()
}

fn model_socket(rig: &RawRig, kind: &str, header: &Range<usize>, file: &Path) -> Result<PathBuf, Wrong> {
    let Some(socket) = &rig.socket else {
        return missing("socket", kind, header.clone());
    };
    match socket.get_ref() {
        Socket::Pair(_) => wrong(
            socket.span(),
            format!("\"socket\" is a table; a rig of kind {kind:?} has one socket: `socket = \"/run/model\"`"),
        ),
        Socket::Path(path) if path.is_empty() || path.contains('\0') => {
            wrong(socket.span(), "\"socket\" is empty, or has a NUL in it")
        }
        Socket::Path(path) => Ok(below(file, path)),
    }
}

/// Resolves a path relative to the directory of the rig file.
fn below(file: &Path, path: impl AsRef<Path>) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).join(path)
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

/// Parses the route, which has the notation of infiniband-diags: "0,1" leaves the tester's adapter through port 1.
fn route(rig: &RawRig, kind: &str, header: Range<usize>) -> Result<Route, Wrong> {
    match (&rig.route, &rig.lid) {
        (Some(_), Some(lid)) => wrong(lid.span(), "\"route\" and \"lid\" are both set; keep one of them"),
        (None, None) if kind == "umad" => wrong(
            header,
            "neither \"route\" nor \"lid\" is set; write `route = \"0,1\"` for a device on the other end of the cable \
             at port 1",
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
                        "route {:?} {what}; expected \"0\" for the tester's own adapter, then the egress port of each \
                         hop, such as \"0,1\"",
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
                    "has no hop: it ends at the tester's own port, which answers SMPs without an M_Key check and is \
                     not the DUT",
                ),
                [0, ports @ ..] if ports.contains(&0) || ports.contains(&255) => {
                    bad("leaves by port 0 or 255, which no adapter or switch has")
                }
                [0, ports @ ..] if ports.len() > MAX_HOPS => bad("has more than 63 hops"),
                [0, ports @ ..] if kind != "umad" && ports != [1] => {
                    bad("does not end at the model, which is cabled to port 1: its route is \"0,1\"")
                }
                [0, first, ..]
                    if rig.port.as_ref().is_some_and(|port| {
                        (1..=254).contains(port.get_ref()) && *port.get_ref() != i64::from(*first)
                    }) =>
                {
                    bad(&format!(
                        "leaves by port {first}, and `port` is {}: the kernel refuses SMPs that leave by another port",
                        rig.port.as_ref().map_or(0, |port| *port.get_ref())
                    ))
                }
                [0, ports @ ..] => Ok(Route::Directed(ports.to_vec())),
                _ => bad("does not begin with 0"),
            }
        }
    }
}

/// Returns the LID to give to a device that has none.
fn assign_lid(rig: &RawRig) -> Result<Option<Lid>, Wrong> {
    let lid = within(rig.assign_lid.as_ref(), "assign_lid", 1, LAST_UNICAST_LID)?.map(Lid);
    let Some(key) = rig.assign_lid.as_ref() else {
        return Ok(None);
    };
    if rig.lid.is_some() {
        return wrong(
            key.span(),
            "\"assign_lid\" gives a LID to a device without one, and \"lid\" says that it has one; keep one of them",
        );
    }
    if rig.shared_subnet.as_ref().is_some_and(|shared| *shared.get_ref()) {
        return wrong(
            key.span(),
            "\"assign_lid\" and \"shared_subnet\" are both set; the subnet manager of a shared subnet assigns the \
             LIDs: remove \"assign_lid\"",
        );
    }
    Ok(lid)
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
