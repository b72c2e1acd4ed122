//! Options of `cargo xtask lab` that choose the kernel of the lab's machine.

use std::path::PathBuf;

use verbatim_lab::machine::ChosenKernel;

/// The kernel of a lab's machine.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelArguments {
    /// A module that replaces the kernel's own of the same file name, such as rdma_rxe.ko; may be repeated.
    #[arg(long, value_name = "FILE.ko")]
    module: Vec<PathBuf>,
    /// Parameters of these modules, as insmod takes them.
    #[arg(long, value_name = "ARGS", requires = "module", default_value = "")]
    module_args: String,
    /// A bzImage in place of Debian's kernel.
    #[arg(long, value_name = "FILE", requires = "modules")]
    bzimage: Option<PathBuf>,
    /// The directory of its modules, with lib/modules/RELEASE in it.
    #[arg(long, value_name = "DIR", requires = "bzimage")]
    modules: Option<PathBuf>,
    /// A linux-image package in place of Debian's newest.
    #[arg(long, value_name = "FILE", conflicts_with = "bzimage")]
    deb: Option<PathBuf>,
    /// More words of the kernel's command line.
    #[arg(long, value_name = "ARGS", default_value = "", allow_hyphen_values = true)]
    append: String,
}

impl From<KernelArguments> for ChosenKernel {
    fn from(of: KernelArguments) -> Self {
        Self {
            deb: of.deb,
            built: of.bzimage.zip(of.modules),
            modules: of.module,
            module_arguments: of.module_args,
            append: of.append,
        }
    }
}
