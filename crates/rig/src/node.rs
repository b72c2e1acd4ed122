//! The device nodes under `/dev/infiniband`.

use std::fs;
use std::path::Path;

/// Returns the name of a device's node: `umad0` for the class `infiniband_mad` and a port, `uverbs0` for the class
/// `infiniband_verbs` without a port. `sys` is `/sys`. Returns `None` if there is no such node.
#[must_use]
pub fn device_node(sys: &Path, class: &str, device: &str, port: Option<u8>) -> Option<String> {
    let prefix = if port.is_some() { "umad" } else { "uverbs" };
    let has =
        |node: &Path, file: &str, value: &str| fs::read_to_string(node.join(file)).is_ok_and(|is| is.trim() == value);
    let is_it =
        |node: &Path| has(node, "ibdev", device) && port.is_none_or(|port| has(node, "port", &port.to_string()));
    let entries = fs::read_dir(sys.join("class").join(class))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix) && is_it(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .min()
}
