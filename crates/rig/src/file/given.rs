//! Keys of a rig as `KEY=VALUE`: set for one run, and printed so that a run can be repeated.

use verbatim_tester::{ACK_TIMEOUT_LEAST, OUT_OF_ORDER, Route};

use super::{DEFAULT_WINDOW, DeviceSeed, ProfileName, RigConfig, RigKind, VirtualConfig, parse, virtual_rig};

/// Error for an invalid `KEY=VALUE`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{given}: {what}")]
pub struct WrongKey {
    /// The `KEY=VALUE`.
    pub given: String,
    /// Error text, with the expected value.
    pub what: String,
}

/// The keys that a run can set on a rig whose device is at a port. The other keys of such a rig identify the device.
const ON_PORTS: [&str; 4] = ["m_key", "shared_subnet", "subnet_timeout", "assign_lid"];

impl RigConfig {
    /// Returns the keys that turn the built-in rig into this one, as `key=value` in TOML. Empty for rigs of other
    /// kinds.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let RigKind::Virtual(model) = &self.kind else {
            return Vec::new();
        };
        let route = match &self.route {
            Route::Lid(lid) => Some(format!("lid={}", lid.0)),
            Route::Directed(_) => None,
        };
        let key = (self.m_key.0 != 0).then(|| format!("m_key=\"{:#x}\"", self.m_key.0));
        let window = (self.window != DEFAULT_WINDOW).then(|| format!("window={}", self.window));
        let timeout = self.subnet_timeout.map(|value| format!("subnet_timeout={}", value.0));
        let shared = self.shared_subnet.then(|| "shared_subnet=true".to_string());
        let assigned = self.assign_lid.map(|lid| format!("assign_lid={}", lid.0));
        let least = self.known.ack_timeout_least;
        let least = (least != 0).then(|| format!("{ACK_TIMEOUT_LEAST}={least}"));
        let ahead = self.known.out_of_order.then(|| format!("{OUT_OF_ORDER}=true"));
        let of_rig = [route, key, shared, window, timeout, assigned, least, ahead]
            .into_iter()
            .flatten();
        of_rig.chain(model.keys()).collect()
    }

    /// Returns this rig with the given `KEY=VALUE`s in place of its own. Keys and values are those of the rig file.
    ///
    /// # Errors
    /// When a `KEY=VALUE` is invalid. A rig of kind `virtual` takes all keys of its kind, a rig of kind `umad` or
    /// `model` only `ON_PORTS`, and rigs of other kinds none.
    pub fn with_keys(&self, given: &[String]) -> Result<Self, WrongKey> {
        let Some(first) = given.first() else {
            return Ok(self.clone());
        };
        let names = given
            .iter()
            .map(|given| name_of(given))
            .collect::<Result<Vec<_>, _>>()?;
        let is_virtual = matches!(self.kind, RigKind::Virtual(_));
        let has_port = matches!(self.kind, RigKind::Umad { .. } | RigKind::Model { .. });
        let is_taken = |name: &String| is_virtual || has_port && ON_PORTS.contains(&name.as_str());
        if let Some(place) = names.iter().position(|name| !is_taken(name)) {
            return Err(WrongKey {
                given: given.get(place).unwrap_or(first).clone(),
                what: format!(
                    "only rigs of kind \"virtual\" take each KEY=VALUE, rigs of kind umad and model take {}, and {:?} \
                     is of kind {:?}; change the key in the rig file",
                    ON_PORTS.join(", "),
                    self.name,
                    self.kind.name()
                ),
            });
        }
        let mut text = format!(
            "config_version = 1\n[[rig]]\nname = {:?}\nkind = \"virtual\"\n",
            self.name
        );
        let replaced = |key: &str| {
            names
                .iter()
                .any(|name| name == key || (key == "lid" && name == "route"))
        };
        for own in self.keys() {
            if !own.split_once('=').is_some_and(|(key, _)| replaced(key)) {
                text.push_str(&own);
                text.push('\n');
            }
        }
        let mut ends = Vec::new();
        for given in given {
            text.push_str(given);
            text.push('\n');
            ends.push(text.len());
        }
        let rig = parse::only_rig(&text).map_err(|(at, what)| {
            let place = ends.iter().position(|end| at < *end).unwrap_or_default();
            let given = given.get(place).unwrap_or(first).clone();
            WrongKey { given, what }
        })?;
        if !is_virtual {
            let mut own = self.clone();
            for name in &names {
                match name.as_str() {
                    "m_key" => own.m_key = rig.m_key,
                    "shared_subnet" => own.shared_subnet = rig.shared_subnet,
                    "subnet_timeout" => own.subnet_timeout = rig.subnet_timeout,
                    "assign_lid" => own.assign_lid = rig.assign_lid,
                    _ => {}
                }
            }
            return Ok(own);
        }
        Ok(Self {
            deviation_files: self.deviation_files.clone(),
            deviations: self.deviations.clone(),
            ..rig
        })
    }
}

/// Returns the key of a `KEY=VALUE`. Fails unless the text has exactly one key, and a run may set that key.
fn name_of(given: &str) -> Result<String, WrongKey> {
    let wrong = |what: String| WrongKey {
        given: given.into(),
        what,
    };
    let expected = "expected KEY=VALUE with a TOML value, such as seed=7 or profile=\"minimal\"";
    if given.trim_start().starts_with('[') {
        return Err(wrong(expected.into()));
    }
    let table: toml::Table =
        toml::from_str(given).map_err(|error| wrong(format!("{}; {expected}", error.message().replace('\n', "; "))))?;
    let mut names = table.into_iter().map(|(name, _)| name);
    match (names.next(), names.next()) {
        (Some(name), None) if ["name", "kind"].contains(&name.as_str()) => Err(wrong(format!(
            "{name:?} identifies the rig and cannot be set; choose another rig with --rig"
        ))),
        (Some(name), None) if name == "deviations" => Err(wrong("give the file with --deviations FILE".into())),
        (Some(name), None) => Ok(name),
        _ => Err(wrong(expected.into())),
    }
}

impl VirtualConfig {
    /// Returns the keys that differ from the built-in rig.
    fn keys(&self) -> Vec<String> {
        let list = |key: &str, names: &[&str]| (!names.is_empty()).then(|| format!("{key}={names:?}"));
        let profile = (self.profile != ProfileName::default()).then(|| format!("profile={:?}", self.profile.name()));
        let seed = match self.seed {
            DeviceSeed::OfRun => None,
            DeviceSeed::Is(seed) => Some(format!("seed={seed}")),
            DeviceSeed::None => Some(format!("seed={:?}", virtual_rig::NO_SEED)),
        };
        let keys = [
            profile,
            seed,
            list("defects", &self.defect_names()),
            list("link_choices", &self.link_choice_names()),
            list("disturbance", &self.disturbance_names()),
            self.busy.map(|of_16| format!("busy={of_16}")),
            self.infiniband.then(|| "infiniband=true".into()),
            self.ipv6.then(|| "ipv6=true".into()),
            self.rules_of_hardware.then(|| "simulated=false".into()),
        ];
        keys.into_iter().flatten().collect()
    }
}
