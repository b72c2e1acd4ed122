//! Facts about the device's files for the search for sites: constants, functions that only query a defect, and the
//! variables of a function.

use std::collections::BTreeSet;

use syn::visit::Visit;

use super::sites::{Finder, is_integer};

/// Returns the names of a file's integer constants.
fn constants(file: &syn::File) -> BTreeSet<String> {
    struct Constants(BTreeSet<String>);
    impl<'ast> Visit<'ast> for Constants {
        fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
            if is_integer(&item.ty) {
                self.0.insert(item.ident.to_string());
            }
        }
    }
    let mut found = Constants(BTreeSet::new());
    found.visit_file(file);
    found.0
}

/// Facts about all files of the device.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Names of the integer constants.
    pub(super) constants: BTreeSet<String>,
    /// Names of the functions that are true only if a defect is present.
    pub(super) of_defects: BTreeSet<String>,
}

impl Known {
    /// Adds the facts of a file.
    pub(super) fn learn(&mut self, source: &str, file: &syn::File) {
        self.constants.extend(constants(file));
        let nothing = Self::default();
        let mut asking = Asking {
            finder: Finder::new(source, &nothing),
            found: BTreeSet::new(),
        };
        asking.visit_file(file);
        self.of_defects.extend(asking.found);
    }
}

/// Finds the functions that only query a defect.
struct Asking<'s> {
    finder: Finder<'s>,
    found: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Asking<'_> {
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if let [syn::Stmt::Expr(only, None)] = &item.block.stmts[..]
            && self.finder.is_defect(only)
        {
            self.found.insert(item.sig.ident.to_string());
        }
    }
}

/// Names of the variables that `let` declares.
#[derive(Default)]
pub(super) struct Variables(pub(super) BTreeSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.0.extend(bound(&local.pat));
        if let Some(init) = &local.init {
            self.visit_local_init(init);
        }
    }
}

/// Returns the names that a pattern binds.
pub(super) fn bound(pattern: &syn::Pat) -> BTreeSet<String> {
    struct Bound(BTreeSet<String>);
    impl<'ast> Visit<'ast> for Bound {
        fn visit_pat_ident(&mut self, name: &'ast syn::PatIdent) {
            self.0.insert(name.ident.to_string());
        }
    }
    let mut found = Bound(BTreeSet::new());
    found.visit_pat(pattern);
    found.0
}
