//! `cargo run -p verbatim-codegen` writes the generated Rust anew.

fn main() -> anyhow::Result<()> {
    let generated = verbatim_codegen::record()?;
    std::fs::write(&generated.path, generated.code)?;
    eprintln!("wrote {}", generated.path.display());
    Ok(())
}
