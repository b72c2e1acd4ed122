//! The jobs of a test run: one process for a whole test program, or for some of its modules.

use std::collections::BTreeMap;

use anyhow::bail;

use super::of_workspace;
use super::programs::Program;
use super::schedule::{Job, Percent};

/// A module of tests that take long or wait for something. The values were measured on two idle cores, without KVM.
struct Slice {
    /// Target of the test program, or its package and target.
    program: &'static str,
    /// Path of the module. The empty path stands for all tests of the program outside other slices.
    module: &'static str,
    /// Number of tests in parallel.
    threads: u32,
    /// Load of one processor in percent.
    load: Percent,
    /// Duration in seconds.
    seconds: u32,
}

impl Slice {
    fn is_of(&self, program: &Program) -> bool {
        program.target == self.program || format!("{} {}", program.package, program.target) == self.program
    }
}

const fn slice(program: &'static str, module: &'static str, threads: u32, load: Percent, seconds: u32) -> Slice {
    Slice {
        program,
        module,
        threads,
        load,
        seconds,
    }
}

/// The slices. A test program without a slice is one job: it runs one test at a time and occupies one processor.
const SLICES: &[Slice] = &[
    slice("labs", "rxe::verdicts", 2, 30, 480),
    slice("labs", "ibsim", 8, 3, 427),
    slice("product", "python", 1, 6, 390),
    slice("product", "python::small_core", 1, 20, 200),
    slice("labs", "rxe", 1, 30, 292),
    slice("labs", "service", 1, 60, 262),
    slice("labs", "vib", 2, 52, 214),
    slice("product", "model_process", 2, 8, 150),
    slice("product", "", 1, 85, 140),
    slice("product", "small_devices", 1, 100, 40),
    slice("product", "lossy_frames", 1, 100, 40),
    slice("product", "few_operations", 1, 100, 25),
    slice("product", "docs", 1, 90, 90),
    slice("labs", "kernel_places", 1, 15, 114),
    slice("machine", "", 1, 25, 106),
    slice("product", "command_line", 2, 130, 74),
    slice("product", "agent_doctor", 1, 30, 60),
    slice("daemon", "worker", 4, 24, 57),
    slice("daemon", "", 2, 30, 37),
    slice("labs", "", 2, 5, 32),
    slice("verbatim-lab lib", "", 1, 100, 21),
    slice("agent", "", 1, 12, 9),
];
/// Values of tests outside all slices.
const OTHERS: Slice = slice("", "", 1, 100, 5);

/// Returns a job for each slice, for each program without slices, and for the examples in the documentation.
///
/// # Errors
///
/// Returns an error when a slice has no tests or no program, or when a program does not list its tests.
pub(super) fn all(programs: &[Program]) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for program in programs {
        let slices: Vec<&Slice> = SLICES.iter().filter(|slice| slice.is_of(program)).collect();
        if slices.is_empty() {
            jobs.push(job(program, &OTHERS, None));
            continue;
        }
        let mut modules = by_module(program.tests()?, &slices);
        for slice in slices {
            let Some(tests) = modules.remove(slice.module).filter(|tests| !tests.is_empty()) else {
                bail!(
                    "{} has no tests in {:?}: correct SLICES in {}",
                    program.target,
                    slice.module,
                    file!()
                );
            };
            jobs.push(job(program, slice, Some(tests)));
        }
        if let Some(tests) = modules.remove("") {
            jobs.push(job(program, &OTHERS, Some(tests)));
        }
    }
    for slice in SLICES {
        if !programs.iter().any(|program| slice.is_of(program)) {
            bail!(
                "no test program is called {:?}: correct SLICES in {}",
                slice.program,
                file!()
            );
        }
    }
    let mut documentation = of_workspace("test");
    documentation.args(["--no-fail-fast", "--doc"]);
    jobs.push(Job {
        name: "documentation".to_owned(),
        command: documentation,
        load: 100,
        seconds: 60,
    });
    Ok(jobs)
}

/// Groups tests by the module of their slice. A test belongs to the slice with the longest matching path. Tests
/// outside all slices are under the empty name.
fn by_module<'s>(tests: Vec<String>, slices: &[&'s Slice]) -> BTreeMap<&'s str, Vec<String>> {
    let mut modules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in tests {
        let is_in = |module: &&str| test.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"));
        let module = slices
            .iter()
            .map(|slice| slice.module)
            .filter(is_in)
            .max_by_key(|module| module.len());
        modules.entry(module.unwrap_or_default()).or_default().push(test);
    }
    modules
}

/// Makes a job that runs these tests of a program, or all tests if `tests` is `None`.
fn job(program: &Program, slice: &Slice, tests: Option<Vec<String>>) -> Job {
    let mut command = program.command();
    if let Some(tests) = tests {
        command.arg("--exact").args(tests);
    }
    command.args(["--test-threads", &slice.threads.to_string()]);
    let mut name = format!("{} {}", program.package, program.target);
    if !slice.module.is_empty() {
        name = format!("{} {}", program.target, slice.module);
    }
    Job {
        name,
        command,
        load: slice.load,
        seconds: slice.seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_is_in_one_slice() {
        let [rxe, deaths, vib] = ["rxe", "rxe::deaths", "vib"].map(|module| slice("labs", module, 1, 100, 9));
        let tests = ["rxe::a", "rxe::deaths::e", "vib::rxe::b", "rxes::c", "d"].map(str::to_owned);
        let modules = by_module(tests.to_vec(), &[&rxe, &deaths, &vib]);
        assert_eq!(modules["rxe"], ["rxe::a"]);
        assert_eq!(modules["rxe::deaths"], ["rxe::deaths::e"]);
        assert_eq!(modules["vib"], ["vib::rxe::b"]);
        assert_eq!(modules[""], ["rxes::c", "d"]);
    }
}
