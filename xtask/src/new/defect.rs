//! A new defect of the device model, as a copy of an existing one.

use std::path::Path;

use anyhow::{Context, bail};

use super::{Begun, Change, Options, insert_behind, sources};

const SOURCES: &str = "crates/device/src";
/// The files that list defects, with the enum in each.
const LISTS: [(&str, &str); 3] = [
    ("crates/device/src/defect.rs", "Defect"),
    ("crates/device/src/rc/defect.rs", "RcDefect"),
    ("crates/device/src/link/defect.rs", "LinkDefect"),
];
/// The defect to copy by default: many connection tests find this defect of an adapter.
const SHORT: &str = "rnr-nak-missing";

/// Prepares the new text of the list of defects, and of the file where the defect acts.
pub(super) fn begin(root: &Path, options: &Options) -> anyhow::Result<Begun> {
    let name = &options.name;
    let words = options.words()?;
    let like = options.like.as_deref().unwrap_or(SHORT);
    let mut files = sources(root, SOURCES)?;
    let listed = |name: &str| {
        LISTS.iter().find_map(|(list, kind)| {
            let file = files.iter().find(|file| file.path == Path::new(list))?;
            let in_quotes = format!(" \"{name}\" \"");
            let line = file.text.lines().find(|line| line.contains(&in_quotes))?;
            Some((*list, *kind, line.to_owned()))
        })
    };
    if let Some((list, ..)) = listed(name) {
        bail!("defect {name} already exists, in {list}");
    }
    let (list, kind, line) = listed(like).with_context(|| format!("no defect is called {like}"))?;
    let prefix = usize::from(kind == "LinkDefect");
    if prefix == 1 && words[0] != "link" {
        bail!("{like} is a defect of the link layer: begin the new name with link-");
    }
    let old = line.split_whitespace().next().unwrap_or_default().to_owned();
    let new: String = words[prefix..].iter().map(|word| capital(word)).collect();
    let call = format!("has({kind}::{old})");
    let name_of = format!("{kind}::{old}");
    let mentions = |file: &Change| {
        let ends = |(at, name): (usize, &str)| !file.text[at + name.len()..].starts_with(char::is_alphanumeric);
        file.text.match_indices(&name_of).filter(|place| ends(*place)).count()
    };
    let is_in = |at: &usize| mentions(&files[*at]) > 0;
    let at = match (0..files.len()).filter(is_in).collect::<Vec<_>>()[..] {
        [at] if mentions(&files[at]) == 1 && files[at].text.contains(&call) => at,
        _ => bail!("{like} does not act in exactly one place, as `{call}`; name another defect with --like"),
    };
    files[at].text = with_either(&files[at].text, &call, &format!("has({kind}::{new})"));
    let list = files
        .iter()
        .position(|file| file.path == Path::new(list))
        .context("it was there")?;
    let inserted = insert_behind(
        &files[list].text,
        &line,
        &format!("        {new} \"{name}\" {:?}", options.about()?),
    )?;
    // A list may limit a defect to some devices. Limit the new defect to the same devices.
    let shown =
        |end: char, text: &str| text.replace(&format!("Self::{old}{end}"), &format!("Self::{old} | Self::{new}{end}"));
    files[list].text = shown('\n', &shown(' ', &inserted));
    let changes = files.into_iter().enumerate();
    let changes = changes
        .filter(|(number, _)| [list, at].contains(number))
        .map(|(_, file)| file);
    Ok(Begun {
        like: like.to_owned(),
        changes: changes.collect::<Vec<Change>>(),
    })
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// Returns the source with `call` replaced by `call || other`; both calls have the same receiver.
pub(super) fn with_either(text: &str, call: &str, other: &str) -> String {
    let at = text.find(call).unwrap_or_default();
    let is_of_receiver = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
    let from = text[..at].trim_end_matches(is_of_receiver).len();
    let (before, receiver, behind) = (&text[..from], &text[from..at], &text[at + call.len()..]);
    let either = format!("{receiver}{call} || {receiver}{other}");
    // These operators bind more tightly than `||`.
    let is_bound = ["!", "&", "=="]
        .iter()
        .any(|operator| before.trim_end().ends_with(operator))
        || [".", "&", "==", "!="]
            .iter()
            .any(|operator| behind.trim_start().starts_with(operator));
    if is_bound {
        format!("{before}({either}){behind}")
    } else {
        format!("{before}{either}{behind}")
    }
}
