//! The committed code is what the definitions give.

#[test]
fn the_committed_rust_is_what_the_definitions_give() {
    let generated = verbatim_codegen::record().expect("the definitions compile");
    let committed = std::fs::read_to_string(&generated.path).unwrap_or_default();
    assert!(
        committed == generated.code,
        "{} is stale: run `cargo run -p verbatim-codegen`",
        generated.path.display()
    );
}
