//! A sample of the defects that qualification kills by the rules of hardware with the tests of management: each is put into the model at the far end
//! of the cable, and one of the tests that kill it on the virtual rig must fail for it in the machine.

use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;
use verbatim_device::Defect;
use verbatim_lab::SubnetManager;

use crate::{Dice, House, run};

/// The tests of management.
const TESTS: [&str; 3] = ["c13-*", "c14-*", "c16-*"];

/// A defect as the qualification knows it.
struct Case {
    name: String,
    statement: String,
    /// The tests that kill it.
    killers: Vec<String>,
    /// The device on which they do.
    profile: String,
    seed: String,
}

impl House<'_> {
    /// Tries `sample` defects, 0 being all, and returns how many that were.
    pub(crate) fn defects(&mut self, sample: u64, dice: &mut Dice) -> anyhow::Result<usize> {
        let mut cases = self.cases()?;
        ensure!(!cases.is_empty(), "the qualification knows no defect of management");
        let sample = if sample == 0 {
            cases.len()
        } else {
            cases.len().min(sample as usize)
        };
        for place in 0..sample {
            let other = place + dice.below((cases.len() - place) as u64) as usize;
            cases.swap(place, other);
        }
        cases.truncate(sample);
        let mut lab = self.lab(&["--profile", "full", "--seed", "1"], SubnetManager::Never)?;
        for case in &cases {
            let model = ["--profile", &case.profile, "--seed", &case.seed, "--defect", &case.name];
            lab.exchange_model(model.iter().map(Into::into).collect())?;
            let mut said = String::new();
            let mut dies = false;
            // One that fails for it is enough.
            for test in &case.killers {
                let ran = run(&lab, &format!("verbatim --server none run --rig vib {test}"))?;
                said = ran.text();
                let failed = said.contains(&format!("FAIL {test}, cause DUT"));
                dies = ran.status == 1 && failed && said.contains(&case.statement);
                if dies {
                    break;
                }
            }
            if dies {
                eprintln!("vib campaign: {} dies", case.name);
            } else {
                self.except(format!(
                    "{} lives: {} on profile {}, seed {}: {}",
                    case.name,
                    case.killers.join(", "),
                    case.profile,
                    case.seed,
                    said.lines().next().unwrap_or_default()
                ));
            }
        }
        Ok(sample)
    }

    /// All defects that the model as a process can have, with the tests that kill them.
    fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let output = Command::new(self.binaries.join("verbatim"))
            .args(["qualify", "--rules", "hardware", "--seeds", "1", "--json"])
            .args(TESTS)
            .output()
            .context("starting verbatim qualify")?;
        let qualified: Value = serde_json::from_slice(&output.stdout).with_context(|| {
            format!(
                "`verbatim qualify --json` printed no JSON: {}",
                String::from_utf8_lossy(&output.stderr)
            )
        })?;
        let defects = qualified["qualifications"][0]["defects"]
            .as_array()
            .context("a qualification without defects")?;
        // Those that hardware shows with a parameter of hours alone are left to the virtual rig.
        let of_management = |case: &&Value| {
            let is_known = Defect::ALL.iter().any(|defect| case["name"] == defect.name());
            is_known && case["set"].is_null() && case["killed_by"].as_array().is_some_and(|by| !by.is_empty())
        };
        defects.iter().filter(of_management).map(case).collect()
    }
}

fn case(defect: &Value) -> anyhow::Result<Case> {
    let text =
        |key: &str| Ok::<_, anyhow::Error>(defect[key].as_str().with_context(|| format!("no {key}"))?.to_owned());
    let killers = defect["killed_by"].as_array().context("no killed_by")?;
    let repeat = text("repeat")?;
    let mut words = repeat.split_whitespace().skip_while(|word| *word != "--seed");
    let seed = words
        .nth(1)
        .with_context(|| format!("no --seed in {repeat:?}"))?
        .to_owned();
    let profile = repeat
        .split("profile=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    Ok(Case {
        name: text("name")?,
        statement: text("statement")?,
        killers: killers
            .iter()
            .filter_map(|test| Some(test.as_str()?.to_owned()))
            .collect(),
        profile: profile.unwrap_or("full").to_owned(),
        seed,
    })
}
