//! Runs the commands of the documentation, whose output must match the pages. `UPDATE=1 cargo test -p verbatim-tests
//! --test product docs` writes the current output into the pages.

use verbatim_tests::pages;

#[test]
fn documented_commands_match() {
    pages::check(None);
}
