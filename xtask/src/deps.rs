//! `cargo xtask deps`: the directions in which the crates may depend on each other.
//!
//! A rule of the architecture is written twice: as a check in `catalog` or `oracle`, and as behaviour in `device`. One
//! misreading of the rule then shows as a difference. `catalog` (with `oracle`) and `device` therefore share only
//! `wire`. Dependencies of tests and build scripts count as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Context, bail};
use serde_json::Value;

use verbatim_lab::workspace;

/// The direct dependencies that a crate may have, as names separated by blanks.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Only these crates of the workspace.
    Only(&'static str),
    /// Every crate of the workspace except these.
    AllBut(&'static str),
}

/// Every crate of the workspace, in the order of the layers.
const RULES: &[(&str, Rule)] = &[
    ("verbatim-wire", Rule::Only("")),
    ("verbatim-manual", Rule::Only("")),
    ("verbatim-nearest", Rule::Only("")),
    ("verbatim-one-build", Rule::Only("")),
    ("verbatim-socket", Rule::Only("")),
    ("verbatim-text", Rule::Only("")),
    ("verbatim-tls", Rule::Only("")),
    ("umad", Rule::Only("")),
    ("verbatim-hw", Rule::Only("verbatim-socket verbatim-wire")),
    ("verbatim-record-proto", Rule::Only("verbatim-wire")),
    ("verbatim-proto", Rule::Only("verbatim-record-proto")),
    ("verbatim-codegen", Rule::Only("")),
    ("verbatim-record", Rule::Only("verbatim-wire verbatim-record-proto")),
    ("verbatim-tester", Rule::Only("verbatim-record verbatim-wire")),
    // Compressed records and bundles, for tests.
    ("verbatim-archives", Rule::Only("verbatim-record")),
    (
        "verbatim-oracle",
        Rule::Only("verbatim-archives verbatim-record verbatim-wire"),
    ),
    (
        "verbatim-catalog",
        Rule::Only("verbatim-archives verbatim-nearest verbatim-oracle verbatim-tester verbatim-record verbatim-wire"),
    ),
    ("verbatim-device", Rule::Only("verbatim-wire")),
    (
        "verbatim-sim",
        Rule::Only("verbatim-tester verbatim-device verbatim-record verbatim-wire"),
    ),
    ("verbatim-capture", Rule::Only("verbatim-record verbatim-wire")),
    (
        "verbatim-report",
        Rule::Only("verbatim-catalog verbatim-record verbatim-record-proto verbatim-text verbatim-wire"),
    ),
    (
        "verbatim-verbs",
        Rule::Only("verbatim-proto verbatim-hw verbatim-text verbatim-tls verbatim-wire"),
    ),
    (
        "verbatim-verbs-fake",
        Rule::Only("verbatim-proto verbatim-verbs verbatim-wire"),
    ),
    (
        "verbatim-agent",
        Rule::Only(
            "verbatim-proto verbatim-hw verbatim-manual verbatim-socket verbatim-text verbatim-tls verbatim-verbs \
             verbatim-verbs-fake",
        ),
    ),
    (
        "verbatim-rig",
        Rule::Only(
            "umad verbatim-catalog verbatim-device verbatim-hw verbatim-nearest verbatim-proto verbatim-record \
             verbatim-sim verbatim-socket verbatim-tester verbatim-verbs verbatim-verbs-fake verbatim-wire",
        ),
    ),
    (
        "verbatim-run",
        Rule::AllBut("verbatim-client verbatim-daemon verbatim verbatim-lab verbatim-tests xtask"),
    ),
    ("verbatim-client", Rule::Only("verbatim-proto verbatim-tls")),
    (
        "verbatim-daemon",
        Rule::AllBut(
            "umad verbatim-agent verbatim-client verbatim-hw verbatim-verbs verbatim verbatim-lab verbatim-tests xtask",
        ),
    ),
    (
        "verbatim",
        Rule::AllBut("verbatim-agent verbatim-daemon verbatim-lab verbatim-tests xtask"),
    ),
    ("verbatim-lab", Rule::Only("")),
    ("verbatim-tests", Rule::AllBut("xtask")),
    // xtask is built before each of its commands, so it uses no crate of the product.
    ("xtask", Rule::Only("verbatim-lab verbatim-one-build")),
];

/// The two crates that may share only [`MEETING_POINT`].
const APART: [&str; 2] = ["verbatim-device", "verbatim-catalog"];
/// The only crate on which both crates of [`APART`] may depend.
const MEETING_POINT: &str = "verbatim-wire";

/// Checks this workspace.
///
/// # Errors
///
/// Returns an error that lists every breach, or an error when cargo fails.
pub(crate) fn check_workspace() -> anyhow::Result<()> {
    let metadata = workspace::metadata(&workspace::root().join("Cargo.toml"))?;
    let breaches = breaches(&metadata)?;
    if breaches.is_empty() {
        return Ok(());
    }
    bail!(
        "the crates depend on each other in directions that are not allowed:\n  {}",
        breaches.join("\n  ")
    )
}

/// Returns the breaches in the output of `cargo metadata`, each with a remedy.
///
/// # Errors
///
/// Returns an error when the value is not the output of cargo.
fn breaches(metadata: &Value) -> anyhow::Result<Vec<String>> {
    let edges = edges(metadata)?;
    let mut breaches = Vec::new();
    for (package, dependencies) in &edges {
        let Some((_, rule)) = RULES.iter().find(|(name, _)| name == package) else {
            breaches.push(format!(
                "{package} has no rule; add what it may depend on to RULES in xtask/src/deps.rs"
            ));
            continue;
        };
        let forbidden = dependencies.iter().filter(|(to, _)| !rule.allows(to));
        breaches.extend(forbidden.map(|(to, kind)| {
            format!(
                "{package} depends on {to} ({kind} dependency); {package} {rule}. Move what is needed, or drop the edge"
            )
        }));
    }
    let [device, catalog] = APART.map(|start| reached(&edges, start));
    let meeting = device.iter().filter(|(package, _)| *package != MEETING_POINT);
    breaches.extend(meeting.filter_map(|(package, from_device)| {
        let from_catalog = catalog.get(package)?.join(" -> ");
        Some(format!(
            "{} and {} share {package}, and may share {MEETING_POINT} only ({}; {from_catalog}): a rule of the \
             architecture is written twice, once in each",
            APART[0],
            APART[1],
            from_device.join(" -> "),
        ))
    }));
    Ok(breaches)
}

impl Rule {
    fn allows(self, package: &str) -> bool {
        match self {
            Rule::Only(allowed) => allowed.split(' ').any(|one| one == package),
            Rule::AllBut(forbidden) => forbidden.split(' ').all(|one| one != package),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Only("") => write!(f, "may depend on no crate of ours"),
            Rule::Only(allowed) => write!(f, "may depend on {} only", allowed.replace(' ', ", ")),
            Rule::AllBut(forbidden) => write!(f, "may not depend on {}", forbidden.replace(' ', ", ")),
        }
    }
}

/// The dependencies between crates of the workspace. The key is a crate; each value holds a crate that it depends on
/// and the kind of dependency.
type Edges = BTreeMap<String, BTreeSet<(String, String)>>;

fn edges(metadata: &Value) -> anyhow::Result<Edges> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    let members: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .context("cargo metadata has no workspace_members")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let ours: Vec<&Value> = packages
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| members.contains(id)))
        .collect();
    let names: BTreeSet<&str> = ours.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut edges = Edges::new();
    for package in ours {
        let name = package["name"].as_str().context("a package without a name")?;
        let dependencies = package["dependencies"]
            .as_array()
            .context("a package without dependencies")?;
        let to_ours = dependencies.iter().filter_map(|dependency| {
            // `name` is the package's own name, even if the dependency is renamed.
            let to = dependency["name"].as_str().filter(|to| names.contains(to))?;
            Some((
                to.to_owned(),
                dependency["kind"].as_str().unwrap_or("normal").to_owned(),
            ))
        });
        edges.insert(name.to_owned(), to_ours.collect());
    }
    Ok(edges)
}

/// Returns every crate that `start` depends on, directly or indirectly, and `start` itself. The value is the path to
/// the crate.
fn reached(edges: &Edges, start: &str) -> BTreeMap<String, Vec<String>> {
    let mut reached = BTreeMap::new();
    let mut next = vec![vec![start.to_owned()]];
    while let Some(way) = next.pop() {
        let last = way.last().expect("a way has a start").clone();
        if !edges.contains_key(&last) || reached.contains_key(&last) {
            continue;
        }
        for (to, _) in &edges[&last] {
            next.push([way.clone(), vec![to.clone()]].concat());
        }
        reached.insert(last, way);
    }
    reached
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type To = (&'static str, Option<&'static str>);

    /// Builds the metadata of a workspace with these dependencies.
    fn metadata(packages: &[(&str, &[To])]) -> Value {
        let id = |name: &str| format!("path+file:///w/{name}#0.1.0");
        let listed: Vec<Value> = packages
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<Value> = dependencies
                    .iter()
                    .map(|(to, kind)| json!({"name": to, "kind": kind, "rename": "x"}))
                    .collect();
                json!({"name": name, "id": id(name), "dependencies": dependencies})
            })
            .collect();
        let members: Vec<String> = packages.iter().map(|(name, _)| id(name)).collect();
        json!({"packages": listed, "workspace_members": members})
    }

    const SOUND: &[(&str, &[To])] = &[
        ("verbatim-wire", &[("proptest", Some("dev"))]),
        ("verbatim-hw", &[("libc", None)]),
        ("verbatim-record-proto", &[("prost", None)]),
        (
            "verbatim-record",
            &[("verbatim-wire", None), ("verbatim-record-proto", None)],
        ),
        ("verbatim-tester", &[("verbatim-record", None)]),
        (
            "verbatim-catalog",
            &[("verbatim-tester", None), ("verbatim-wire", Some("dev"))],
        ),
        ("verbatim-device", &[("verbatim-wire", None)]),
        ("verbatim-sim", &[("verbatim-tester", None), ("verbatim-device", None)]),
        (
            "verbatim-run",
            &[
                ("verbatim-hw", None),
                ("verbatim-sim", None),
                ("verbatim-catalog", None),
            ],
        ),
        ("verbatim-daemon", &[("verbatim-run", None)]),
        ("verbatim", &[("verbatim-run", None)]),
        ("verbatim-lab", &[]),
        ("verbatim-tests", &[("verbatim-lab", None), ("verbatim", Some("dev"))]),
        ("xtask", &[("verbatim-lab", None)]),
    ];

    fn with(package: &str, extra: &[To]) -> Vec<String> {
        let mut packages: Vec<(&str, Vec<To>)> = SOUND.iter().map(|(name, to)| (*name, to.to_vec())).collect();
        match packages.iter_mut().find(|(name, _)| *name == package) {
            Some((_, to)) => to.extend_from_slice(extra),
            None => packages.push((package, extra.to_vec())),
        }
        let packages: Vec<(&str, &[To])> = packages.iter().map(|(name, to)| (*name, to.as_slice())).collect();
        breaches(&metadata(&packages)).unwrap()
    }

    #[test]
    fn allows_the_intended_layers() {
        assert_eq!(breaches(&metadata(SOUND)).unwrap(), [""; 0]);
    }

    #[test]
    fn reports_a_forbidden_edge() {
        let found = with("verbatim-codegen", &[("verbatim-wire", None)]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0],
            "verbatim-codegen depends on verbatim-wire (normal dependency); verbatim-codegen may depend on no crate of ours. \
             Move what is needed, or drop the edge"
        );
    }

    #[test]
    fn counts_dev_and_build_dependencies() {
        for kind in ["dev", "build"] {
            let found = with("verbatim-wire", &[("verbatim-record", Some(kind))]);
            let words = format!("depends on verbatim-record ({kind} dependency)");
            assert!(found.iter().any(|breach| breach.contains(&words)), "{found:?}");
        }
    }

    #[test]
    fn device_and_catalog_share_only_wire() {
        let found = with("verbatim-catalog", &[("verbatim-sim", Some("dev"))]);
        assert!(found[0].contains("depends on verbatim-sim"), "{found:?}");
        let shared = "verbatim-device and verbatim-catalog share verbatim-device, and may share verbatim-wire only \
             (verbatim-device; verbatim-catalog -> verbatim-sim -> verbatim-device): a rule of the architecture is \
             written twice, once in each";
        assert!(found.iter().any(|breach| breach == shared), "{found:?}");
        let found = with("verbatim-device", &[("verbatim-record", None)]);
        assert!(
            found
                .iter()
                .any(|breach| breach.contains("share verbatim-record-proto")),
            "{found:?}"
        );
    }

    #[test]
    fn reports_a_crate_without_a_rule() {
        let found = with("verbatim-surprise", &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("verbatim-surprise has no rule"), "{found:?}");
    }

    #[test]
    fn program_and_daemon_stay_apart() {
        assert_eq!(with("verbatim-daemon", &[("verbatim", None)]).len(), 1);
        assert_eq!(with("verbatim", &[("verbatim-daemon", None)]).len(), 1);
        assert_eq!(with("xtask", &[("verbatim-tests", None)]).len(), 1);
    }

    #[test]
    fn this_workspace_keeps_the_directions() {
        check_workspace().unwrap();
    }
}
