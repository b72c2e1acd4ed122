//! `cargo run -p verbatim-codegen` writes the generated Rust code.

fn main() -> anyhow::Result<()> {
    for generated in verbatim_codegen::all()? {
        std::fs::write(&generated.path, generated.content)?;
        eprintln!("wrote {}", generated.path.display());
    }
    Ok(())
}
