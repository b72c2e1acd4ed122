//! Cargo looks at the build dependencies of a package that has a build script only.
fn main() {}
