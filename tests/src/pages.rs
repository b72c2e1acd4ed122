//! Runs the commands of the documentation as written, and compares their output with the pages.
//!
//! The commands are in blocks fenced as `console`: a line `$ COMMAND`, then its output on both streams. `[..]` stands
//! for any text within a line, a line `...` for any lines. One shell runs a page from top to end, in a directory that
//! the page shows as `/home/me/verbatim`, with `docs` in it. Background processes of a block end with the block.
//!
//! The test of lab NAME runs a block fenced as `console lab=NAME`. A block fenced as `console skip="WHY"` is never run.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use snapbox::Data;
use snapbox::filter::NormalizeToExpected;
use snapbox::report::{Palette, write_diff};
use verbatim_lab::host::{apt_line, program};
use verbatim_lab::workspace::root;

use crate::oracle::skipped;
use crate::product::{Place, Running, programs};

/// Longest time of a page, on the busiest host.
const LIMIT: Duration = Duration::from_secs(1800);
/// Third-party programs that a page may call, each with its package.
const OTHERS: [(&str, &str); 5] = [
    ("jq", "jq"),
    ("openssl", "openssl"),
    ("opensm", "opensm"),
    ("smpquery", "infiniband-diags"),
    ("tshark", "tshark"),
];

/// Beginnings of lines that appear only on some hosts. In order, these lines come from tshark as root, libibumad
/// without its kernel module, the choice of an accelerator, a slow run, and xtask during another build.
const OF_THE_HOST: [&str; 5] = [
    "Running as user \"root\"",
    "ibwarn: ",
    "machines run under ",
    "verbatim: so far: ",
    "xtask: another cargo builds in ",
];

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    text: String,
    /// The range of the page's lines with the command's output, counted from 0.
    prints: Range<usize>,
}

/// A block of commands.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    lab: Option<String>,
    skip: bool,
    commands: Vec<Command>,
}

/// Returns the blocks of a page, or an error with the line number.
fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let lines: Vec<&str> = page.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(info) = lines[at].strip_prefix("```") else {
            at += 1;
            continue;
        };
        let begins = at + 1;
        let length = lines[begins..].iter().position(|line| line.starts_with("```"));
        let ends = begins + length.ok_or_else(|| format!("line {begins}: the block has no end"))?;
        at = ends + 1;
        let is_command = |line: &&str| line.starts_with("$ ");
        let Some(rest) = info.strip_prefix("console") else {
            if lines[begins..ends].iter().any(is_command) {
                return Err(format!("line {begins}: a block with commands begins with ```console"));
            }
            continue;
        };
        let rest = rest.trim();
        let lab = rest.strip_prefix("lab=").map(str::to_owned);
        let skip = rest.starts_with("skip=\"") && rest.len() > "skip=\"\"".len();
        if !rest.is_empty() && lab.is_none() && !skip {
            return Err(format!("line {begins}: expected lab=NAME or skip=\"WHY\", seen {rest}"));
        }
        let mut commands: Vec<Command> = Vec::new();
        for (number, line) in (begins..).zip(&lines[begins..ends]) {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(text), _) => commands.push(Command {
                    text: text.to_owned(),
                    prints: number + 1..number + 1,
                }),
                (None, None) => return Err(format!("line {}: expected `$ COMMAND`", number + 1)),
                (None, Some(last)) if last.prints.is_empty() && last.text.ends_with('\\') => {
                    last.text = format!("{}\n{line}", last.text);
                    last.prints = number + 1..number + 1;
                }
                (None, Some(last)) => last.prints.end = number + 1,
            }
        }
        blocks.push(Block { lab, skip, commands });
    }
    Ok(blocks)
}

/// Returns the paths of the pages: the Markdown files in the root directory, in `docs` and in `docs/adr`.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = [root().to_owned(), root().join("docs"), root().join("docs/adr")]
        .iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// Runs the commands of all pages for this lab, and compares their output with the pages. `None` stands for the
/// commands without a lab.
///
/// With `UPDATE` set, rewrites the pages instead. `[..]` and `...` stay if they still match.
///
/// # Panics
/// When the output of a command differs from its page, or a block's fence or contents are malformed.
pub fn check(lab: Option<&str>) {
    let stale: String = thread::scope(|scope| {
        let running: Vec<_> = pages()
            .into_iter()
            .map(|page| scope.spawn(move || check_page(&page, lab)))
            .collect();
        running
            .into_iter()
            .map(|page| page.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    assert!(
        stale.is_empty(),
        "{stale}\nThe documentation shows what is not so. See what changed; `UPDATE=1` and the same test write it."
    );
}

/// A command of a page that a test runs itself instead of [`check`], and the output that the page shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The lab of the command's block.
    pub lab: String,
    /// The command.
    pub command: String,
    /// The output on the page.
    pub prints: String,
}

impl Shown {
    /// Returns the difference between the printed output and the page; empty if they agree.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn differs(&self, printed: String) -> String {
        let shown = Data::text(self.prints.clone());
        let seen = NormalizeToExpected::new()
            .redact()
            .normalize(Data::text(printed), &shown);
        let mut differs = String::new();
        if seen != shown {
            write_diff(
                &mut differs,
                &shown,
                &seen,
                Some(&self.command),
                Some(&"seen"),
                Palette::plain(),
            )
            .unwrap();
        }
        differs
    }
}

/// Returns the commands of a page of `docs` for one of these labs, in the page's order.
///
/// # Panics
/// When there is no such page, or a block's fence or contents are malformed.
#[must_use]
pub fn shown(page: &str, labs: &[&str]) -> Vec<Shown> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for block in blocks(&text).unwrap_or_else(|error| panic!("{page}: {error}")) {
        let Some(lab) = block.lab.filter(|lab| labs.contains(&lab.as_str())) else {
            continue;
        };
        all.extend(block.commands.into_iter().map(|command| Shown {
            lab: lab.clone(),
            prints: lines[command.prints].iter().map(|line| format!("{line}\n")).collect(),
            command: command.text,
        }));
    }
    all
}

/// Returns the differences on a page.
fn check_page(path: &Path, lab: Option<&str>) -> String {
    let text = fs::read_to_string(path).unwrap();
    let name = path.strip_prefix(root()).unwrap().display().to_string();
    let blocks: Vec<Block> = blocks(&text)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .into_iter()
        .filter(|block| !block.skip && block.lab.as_deref() == lab && can_run(block))
        .collect();
    if blocks.is_empty() {
        return String::new();
    }
    let printed = run(&blocks);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut stale = String::new();
    // Go from the end to the beginning, so that earlier line numbers stay valid.
    let commands = blocks.iter().flat_map(|block| &block.commands);
    for (command, printed) in commands.zip(printed).collect::<Vec<_>>().into_iter().rev() {
        let shown: String = lines[command.prints.clone()]
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        let shown = Data::text(shown);
        let seen = NormalizeToExpected::new()
            .redact()
            .normalize(Data::text(printed), &shown);
        if seen == shown {
            continue;
        }
        let place = format!("{name}:{}: $ {}", command.prints.start, command.text);
        write_diff(&mut stale, &shown, &seen, Some(&place), Some(&"seen"), Palette::plain()).unwrap();
        let seen = seen.render().unwrap();
        lines.splice(command.prints.clone(), seen.lines().map(str::to_owned));
    }
    if env::var_os("UPDATE").is_none_or(|value| value.is_empty()) {
        return stale;
    }
    if !stale.is_empty() {
        fs::write(path, lines.join("\n") + "\n").unwrap();
        eprintln!("{stale}\n{name}: written anew");
    }
    String::new()
}

/// Returns whether every program that a block calls is installed; prints what is missing.
fn can_run(block: &Block) -> bool {
    let calls = |name: &str| {
        let words = |command: &Command| {
            let is_end = |character: char| !character.is_alphanumeric();
            command.text.split(is_end).any(|word| word == name)
        };
        block.commands.iter().any(words)
    };
    OTHERS
        .iter()
        .all(|(name, package)| !calls(name) || program(name).is_some() || skipped(name, &apt_line(&[package])))
}

/// Copies a directory and its contents, byte for byte.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// Runs commands in one shell. Returns the output of each command.
fn run(blocks: &[Block]) -> Vec<String> {
    let place = Place::new();
    for name in ["work", "home", "tmp", "out", "work/docs/examples"] {
        fs::create_dir_all(place.path(name)).unwrap();
    }
    let temporary = format!("{}/", place.path("tmp").display());
    for entry in fs::read_dir(root().join("docs/examples")).unwrap() {
        let entry = entry.unwrap();
        let to = place.path("work/docs/examples").join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
            continue;
        }
        match fs::read_to_string(entry.path()) {
            Ok(text) => fs::write(to, text.replace("/tmp/", &temporary)).unwrap(),
            Err(_) => fs::copy(entry.path(), to).map(drop).unwrap(),
        }
    }
    let home = env::var("HOME").unwrap_or_default();
    let mut script = format!(
        "cargo() {{ (cd '{}' && HOME='{home}' command cargo \"$@\"); }}\ncode=0\n",
        root().display()
    );
    let mut number = 0;
    for block in blocks {
        script.push_str("jobs=\n");
        for command in &block.commands {
            let out = place.path(&format!("out/{number}"));
            let (out, text) = (out.display(), command.text.replace("/tmp/", &temporary));
            // The command sees the exit code of the previous command, as in an interactive shell.
            write!(script, "(exit $code)\n{{ {text}\n}} >'{out}' 2>&1\ncode=$?\n").unwrap();
            if text.ends_with('&') {
                let lines = command.prints.len();
                let heard = format!("[ $(wc -l <'{out}') -ge {lines} ]");
                write!(
                    script,
                    "jobs=\"$jobs $!\"\nuntil {heard} || ! kill -0 $!; do sleep 0.02; done\n\
                     head -n {lines} '{out}' >'{out}.shown'\n"
                )
                .unwrap();
            }
            number += 1;
        }
        script.push_str("[ -z \"$jobs\" ] || { kill $jobs; wait; }\n");
    }
    let mut path = programs().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut shell = place.command("sh");
    shell
        .args(["-c", &script])
        .current_dir(place.path("work"))
        .env("PATH", path)
        .env("HOME", place.path("home"))
        .env_remove("STATE_DIRECTORY");
    for kept in ["CARGO_HOME", "RUSTUP_HOME", "CARGO_TARGET_DIR", "CI"] {
        if let Some(value) = env::var_os(kept) {
            shell.env(kept, value);
        }
    }
    let ended = Running::start(&mut shell).end(LIMIT);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("", ""),
        "the shell itself"
    );
    let places = [("work", "/home/me/verbatim"), ("home", "/home/me"), ("tmp", "/tmp")]
        .map(|(name, shown)| (place.path(name).display().to_string(), shown));
    let root = root().display().to_string();
    (0..number)
        .map(|number| {
            let out = place.path(&format!("out/{number}"));
            let printed = fs::read(out.with_extension("shown"))
                .or_else(|_| fs::read(&out))
                .unwrap();
            let printed = without_the_host(&String::from_utf8_lossy(&printed)).replace(&root, "/home/me/verbatim");
            places
                .iter()
                .fold(printed, |text, (place, shown)| text.replace(place, shown))
        })
        .collect()
}

/// Removes the lines of a command's output that depend only on the host.
fn without_the_host(printed: &str) -> String {
    printed
        .split_inclusive('\n')
        .filter(|line| !OF_THE_HOST.iter().any(|start| line.starts_with(start)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_lines_about_other_builds() {
        let printed = "xtask: another cargo builds in /t/dev-fast; waiting for it\nxtask: building verbatim\nPASS\n";
        assert_eq!(without_the_host(printed), "xtask: building verbatim\nPASS\n");
    }

    #[test]
    fn parses_commands_with_their_output() {
        let page = "# A\n```console\n$ a\nb\n\n$ c \\\n  d\ne\n```\n```\nno command\n```\n```console lab=x\n$ f\n```\n";
        let command = |text: &str, prints| Command {
            text: text.to_owned(),
            prints,
        };
        assert_eq!(
            blocks(page).unwrap(),
            [
                Block {
                    commands: vec![command("a", 3..5), command("c \\\n  d", 7..8)],
                    ..Block::default()
                },
                Block {
                    lab: Some("x".to_owned()),
                    commands: vec![command("f", 14..14)],
                    ..Block::default()
                }
            ]
        );
    }

    #[test]
    fn reports_line_of_badly_marked_block() {
        for (page, words) in [
            (
                "```\n$ a\n```\n",
                "line 1: a block with commands begins with ```console",
            ),
            ("x\n```console slow\n$ a\n```\n", "line 2: expected lab=NAME"),
            ("```console skip=\"\"\n$ a\n```\n", "line 1: expected lab=NAME"),
            ("```console\na\n```\n", "line 2: expected `$ COMMAND`"),
            ("```console\n$ a\n", "line 1: the block has no end"),
        ] {
            let error = blocks(page).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
