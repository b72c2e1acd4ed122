//! `cargo xtask golden TEST [--defect NAME]`: stores a test's record of the virtual rig, and its verdict, beside the
//! catalogue. Builds the catalogue and the program in the labs' profile.
//!
//! The records of one test share most of their bytes, so one archive, `TEST.tar.zst`, holds all of them. The programs
//! `tar` and `zstd` pack and unpack the archive: xtask is built before each of its commands and must stay small. Tests
//! read the archive with `verbatim-archives`.

use std::path::{Path, PathBuf};
use std::{fs, process::Command};

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use verbatim_lab::build_binaries;
use verbatim_lab::workspace::{root, run, shown};

use crate::testing::of_workspace;

/// Parameter values that keep a record small.
const SMALL: [(&str, u64); 5] = [
    ("rows", 6),
    ("illegal_parts", 8),
    ("violations", 3),
    ("steps", 16),
    ("messages", 300),
];

/// Directory of the archives and their verdicts, below the workspace.
pub(crate) const DIRECTORY: &str = "crates/catalog/tests/golden";

/// Default profile of the device model. `SEED` is the default seed.
pub(crate) const PROFILE: &str = "full";
pub(crate) const SEED: u64 = 7;

/// Arguments of tar that leave out times and user names, so that equal records make equal archives.
const PACK: [&str; 7] = [
    "--use-compress-program=zstd -19 -T1",
    "--format=ustar",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mtime=@0",
    "--mode=644",
];

/// A record to make.
#[derive(Debug)]
pub(crate) struct Golden<'a> {
    /// Id of the test.
    pub(crate) test: &'a str,
    /// Defect of the device, or none for a sound device.
    pub(crate) defect: Option<&'a str>,
    pub(crate) profile: &'a str,
    pub(crate) seed: u64,
    /// Whether an existing record may be replaced.
    pub(crate) replace: bool,
}

impl<'a> Golden<'a> {
    /// Describes a record that does not exist yet.
    pub(crate) fn new(test: &'a str, defect: Option<&'a str>) -> Self {
        Self {
            test,
            defect,
            profile: PROFILE,
            seed: SEED,
            replace: false,
        }
    }

    /// Runs the test and stores its record.
    ///
    /// # Errors
    ///
    /// Returns an error when the program does not build, when the run has the wrong outcome, or when a different record
    /// exists.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        let program = build_binaries()?.join("verbatim");
        let scratch = tempfile::tempdir().context("no temporary directory can be made")?;
        let made = self.record(&program, scratch.path())?;
        let archive = directory().join(format!("{}.tar.zst", self.test));
        store(&archive, &self.file(), &made, self.replace)?;
        println!("{}", archive.display());
        Ok(())
    }

    fn file(&self) -> String {
        let defect = self.defect.map(|defect| format!("@{defect}")).unwrap_or_default();
        format!("{}{defect}.rec", self.test)
    }

    /// Runs the test and returns the path of its record.
    fn record(&self, program: &Path, scratch: &Path) -> anyhow::Result<PathBuf> {
        let listed = answer(Command::new(program).args(["tests", "--json", self.test]))?;
        let [test] = listed["tests"].as_array().map_or(&[] as &[_], Vec::as_slice) else {
            bail!("\"{}\" names more than one test; expected one", self.test);
        };
        if test["id"] != self.test {
            bail!("give the test by its id, {}", test["id"]);
        }
        let parameters = test["parameters"].as_array().into_iter().flatten();
        let names: Vec<&str> = parameters.filter_map(|parameter| parameter["name"].as_str()).collect();

        let rig = scratch.join("rigs.toml");
        let defects: Vec<&str> = self.defect.into_iter().collect();
        let mut needs = test["needs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_pair = needs.any(|need| need.starts_with("two adapters on InfiniBand"));
        let lines = [
            "config_version = 1".to_string(),
            "[[rig]]".into(),
            "name = \"golden\"".into(),
            "kind = \"virtual\"".into(),
            format!("profile = {:?}", self.profile),
            format!("defects = {defects:?}"),
            format!("infiniband = {is_pair}"),
        ];
        fs::write(&rig, lines.join("\n"))?;
        let bundle = scratch.join("bundle");
        let mut command = Command::new(program);
        command.args(["run", self.test, "--json", "--rig", "golden"]);
        command.arg("--rig-file").arg(&rig).arg("--record").arg(&bundle);
        command.arg("--seed").arg(self.seed.to_string());
        for (name, value) in SMALL.iter().filter(|(name, _)| names.contains(name)) {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        let report = answer(&mut command)?;
        let verdict = &report["verdicts"][0];
        let words = |key: &str| verdict[key].as_str().unwrap_or_default();
        let (outcome, reason) = (words("outcome"), words("reason"));
        match self.defect {
            None if outcome != "PASS" => bail!("on a sound device, the outcome is {outcome}: {reason}"),
            Some(defect) if outcome == "PASS" => bail!(
                "the test passes in spite of {defect}, with profile {} and seed {} (another: --profile, --seed); \
                 `verbatim qualify {}` lists what the test catches",
                self.profile,
                self.seed,
                self.test
            ),
            _ => {}
        }
        println!("{} {outcome} {reason}", self.test);
        let record = bundle.join(format!("001-{}.rec", self.test));
        if !record.is_file() {
            bail!("expected {} from the run; the file does not exist", record.display());
        }
        Ok(record)
    }
}

/// Stores a record in an archive. An archive that already holds the same record stays unchanged.
fn store(archive: &Path, name: &str, made: &Path, replace: bool) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir().context("no temporary directory can be made")?;
    let records = scratch.path().join("records");
    fs::create_dir(&records)?;
    if archive.is_file() {
        let mut tar = Command::new("tar");
        tar.args(["--zstd", "-xf"]).arg(archive).arg("-C").arg(&records);
        run("unpacking the test's records", &mut tar)?;
    }
    let kept = records.join(name);
    if kept.is_file() {
        if fs::read(&kept)? == fs::read(made)? {
            return Ok(());
        }
        if !replace {
            bail!(
                "{} has a different {name}; replace a record (with --replace) only when its test's revision goes up",
                archive.display()
            );
        }
    }
    fs::copy(made, &kept).with_context(|| format!("{} cannot be written", kept.display()))?;
    let packed = scratch.path().join("packed");
    let mut tar = Command::new("tar");
    tar.args(PACK).arg("-cf").arg(&packed).arg("-C").arg(&records);
    // "." sorts before "@", so the record of the sound device comes first.
    let mut names = fs::read_dir(&records)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    names.sort();
    run("packing the test's records", tar.args(names))?;
    fs::copy(&packed, archive).with_context(|| format!("{} cannot be written", archive.display()))?;
    Ok(())
}

/// Returns the defects of the devices in a test's records.
///
/// # Errors
///
/// Returns an error when the test has no archive.
pub(crate) fn defects(test: &str) -> anyhow::Result<Vec<String>> {
    let archive = directory().join(format!("{test}.tar.zst"));
    let mut tar = Command::new("tar");
    let output = tar.args(["--zstd", "-tf"]).arg(&archive).output();
    let output = output.context("tar could not be started; is it installed?")?;
    if !output.status.success() {
        bail!(
            "{}: {}",
            archive.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let defect = |name: &str| Some(name.strip_suffix(".rec")?.split_once('@')?.1.to_owned());
    Ok(names.lines().filter_map(defect).collect())
}

/// Judges all golden records again, and writes the verdicts.
///
/// # Errors
///
/// Returns an error when the catalogue does not build, or when a record cannot be judged.
pub(crate) fn write_verdicts() -> anyhow::Result<()> {
    let mut test = of_workspace("test");
    test.args(["--quiet", "--test", "catalog", "--"])
        .arg("golden::verdicts_on_golden_records_are_unchanged")
        .env("VERBATIM_WRITE_GOLDEN", "1");
    run("verdicts of the golden records", &mut test)?;
    println!("{}", directory().join("verdicts.txt").display());
    Ok(())
}

fn directory() -> PathBuf {
    root().join(DIRECTORY)
}

/// Returns the JSON document that a command prints. Ignores the exit code, because a run with findings exits with an
/// error.
fn answer(command: &mut Command) -> anyhow::Result<Value> {
    let output = command
        .output()
        .with_context(|| format!("could not be started: {}", shown(command)))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow!("{} printed no JSON document: {}", shown(command), said.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_record_only_when_asked_to() {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("t.tar.zst");
        let made = place.path().join("made");
        let put = |name: &str, content: &str, replace: bool| {
            fs::write(&made, content).unwrap();
            store(&archive, name, &made, replace)
        };
        put("t@lame.rec", "lame", false).unwrap();
        put("t.rec", "sound", false).unwrap();
        let packed = fs::read(&archive).unwrap();
        assert!(packed.starts_with(b"\x28\xb5\x2f\xfd"), "zstd's magic number");
        let error = put("t.rec", "other", false).unwrap_err().to_string();
        assert!(error.contains("has a different t.rec"), "{error}");
        assert_eq!(fs::read(&archive).unwrap(), packed);
        put("t.rec", "other", true).unwrap();
        assert_ne!(fs::read(&archive).unwrap(), packed);
        put("t.rec", "sound", true).unwrap();
        assert_eq!(
            fs::read(&archive).unwrap(),
            packed,
            "the same records make the same archive"
        );
    }

    #[test]
    fn keeps_an_archive_that_holds_the_record() {
        let place = tempfile::tempdir().unwrap();
        let [archive, made] = ["t.tar.zst", "t.rec"].map(|name| place.path().join(name));
        fs::write(&made, "sound").unwrap();
        let mut tar = Command::new("tar");
        tar.args(["--use-compress-program=zstd -1", "-cf"]).arg(&archive);
        run("packing", tar.arg("-C").arg(place.path()).arg("t.rec")).unwrap();
        let packed = fs::read(&archive).unwrap();
        store(&archive, "t.rec", &made, false).unwrap();
        assert_eq!(fs::read(&archive).unwrap(), packed);
    }
}
