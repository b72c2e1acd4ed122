//! The page of the documentation, run as written.

use std::env;
use std::ffi::OsString;

use verbatim_tests::product::{Place, program, run};

use crate::example::root;

/// The commands of the page, each with what it prints.
fn commands(page: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```" && !inside;
            continue;
        }
        match (inside, line.strip_prefix("$ ")) {
            (true, Some(command)) => commands.push((command.into(), String::new())),
            (true, None) => {
                if let Some((_, printed)) = commands.last_mut() {
                    printed.push_str(line);
                    printed.push('\n');
                }
            }
            (false, _) => {}
        }
    }
    commands
}

#[test]
fn every_command_of_the_page_prints_what_the_page_shows() {
    let page = std::fs::read_to_string(root().join("docs/inspect.md")).unwrap();
    let commands = commands(&page);
    assert!(commands.len() >= 3, "{commands:?}");
    let place = Place::new();
    let mut path = OsString::from(program("verbatim").parent().unwrap());
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    for (command, expected) in commands {
        // What they say on stderr is shown on the page, too.
        let output = run(place
            .command("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(root())
            .env("PATH", &path));
        assert_eq!(output.stdout, expected, "$ {command}");
    }
}
