//! The committed code is what the definitions give.

#[test]
fn the_committed_rust_is_what_the_definitions_give() {
    for generated in verbatim_codegen::all().expect("the definitions compile") {
        let committed = std::fs::read(&generated.path).unwrap_or_default();
        assert!(
            committed == generated.content,
            "{} is stale: run `cargo run -p verbatim-codegen`",
            generated.path.display()
        );
    }
}
