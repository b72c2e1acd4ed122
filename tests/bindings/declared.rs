//! What the committed bindings say: read from their own assertions, so that nothing is left out and nothing is said
//! twice.

use std::{collections::BTreeMap, path::Path};

/// What a file of declarations says of its types.
#[derive(Debug, Default)]
pub struct Declared {
    /// Bytes of each type.
    pub sizes: BTreeMap<String, usize>,
    /// Bytes before each field of each type.
    pub offsets: BTreeMap<(String, String), usize>,
    /// Constants of each enumeration.
    pub constants: Vec<(String, String, i64)>,
}

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text between two others, and what follows.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after)
}

/// What `crates/hw/src/verbs/generated.rs` says. Its assertions name each size and each offset, and the compiler holds it to them.
///
/// # Panics
///
/// When it is not there, or has another form than bindgen gives it.
pub fn verbs() -> Declared {
    let mut found = Declared::default();
    let text = source("hw/src/verbs/generated.rs");
    // An assertion may go over several lines.
    let mut rest = text.as_str();
    while let Some((what, behind)) = between(rest, "[\"", "\"]") {
        let number = |end: &str| -> usize {
            let (body, _) = behind.split_once(end).expect("the end of an assertion");
            let (_, number) = body.rsplit_once("- ").expect("a difference");
            number.trim().parse().unwrap_or_else(|_| panic!("{what}: {number}"))
        };
        if let Some(name) = what.strip_prefix("Size of ") {
            found.sizes.insert(name.into(), number("usize]"));
        } else if let Some(field) = what.strip_prefix("Offset of field: ") {
            let (name, field) = field.split_once("::").expect("a type and its field");
            found.offsets.insert((name.into(), field.into()), number("usize]"));
        }
        rest = behind;
    }
    let mut rest = text.as_str();
    while let Some((name, behind)) = between(rest, "pub const ", ":") {
        let Some((declared, behind)) = between(behind, " ", ";") else {
            break;
        };
        if let Some((kind, value)) = declared.split_once('=') {
            let value = between(value, "(", ")").map_or("", |(value, _)| value);
            if let Ok(value) = value.trim().parse() {
                found.constants.push((kind.trim().into(), name.trim().into(), value));
            }
        }
        rest = behind;
    }
    found
}

/// What `crates/umad/src/ffi.rs` says, by the names of `infiniband/umad.h`: its table `layouts!`.
///
/// # Panics
///
/// When the table is not there, or is none.
pub fn umad() -> Declared {
    let mut found = Declared::default();
    let text = source("umad/src/ffi.rs");
    let (table, _) = between(&text, "\nlayouts! {\n", "\n}\n").expect("umad/ffi.rs has a table of layouts");
    for of in table.split('}').filter(|of| !of.trim().is_empty()) {
        let (head, fields) = of.split_once('{').expect("a type and its fields");
        let [_, name, size] = head.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{head}: expected the type, its name in C and its size");
        };
        let name = name.trim_matches('"').to_owned();
        let number = |word: &str| {
            word.parse()
                .unwrap_or_else(|_| panic!("{word}: expected a number of bytes"))
        };
        found.sizes.insert(name.clone(), number(size));
        for field in fields.split_whitespace().collect::<Vec<_>>().chunks(2) {
            found.offsets.insert((name.clone(), field[0].into()), number(field[1]));
        }
    }
    found
}
