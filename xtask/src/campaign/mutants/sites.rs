//! Places where the device's code can change, and the changes: the operators of cargo-mutants, found in the syntax
//! tree.
//!
//! Code that only a defect executes is left out: a branch behind `faults.has(..)` is a known defect already. Patterns,
//! types and values of constants are left out, because they cannot depend on a choice at run time. Instead, the uses of
//! a constant are changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::Visit;

mod visit;

use super::known::{Known, Variables};

/// A place in a file at which the program can choose a change.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Byte range in the file.
    pub(super) range: Range<usize>,
    pub(super) line: usize,
    pub(super) function: String,
    pub(super) form: Form,
}

/// The alternatives at a site.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// An expression, or one of these texts instead.
    Instead(Vec<String>),
    /// A statement, or nothing.
    Statement,
    /// A match arm, or no arm. The range covers the guard, if there is one.
    Arm { guarded: bool, pattern: String },
    /// The beginning of a function's body, or an immediate return of one of these values.
    Body(Vec<String>),
    /// The beginning of an adapter's method. The site has no mutant. A guard there keeps mutants out of the tester's
    /// adapter.
    Adapter,
}

/// Sites and names in a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// All sites, unordered.
    pub(super) sites: Vec<Site>,
    /// Functions that code outside the device cannot call.
    pub(super) inner: BTreeSet<String>,
    /// The names in each function's code; the key is the function. The empty key holds the names outside functions.
    /// Code that only a defect executes is left out.
    pub(super) names: BTreeMap<String, BTreeSet<String>>,
}

/// Finds the sites in a file.
pub(super) fn find(source: &str, file: &syn::File, known: &Known) -> Found {
    let mut finder = Finder::new(source, known);
    finder.visit_file(file);
    finder.found
}

/// Returns the names, without paths, of the functions that only defects call. The device's other code does not
/// name these functions.
pub(super) fn only_of_defects(files: &[&Found]) -> BTreeSet<String> {
    let mut only = BTreeSet::new();
    loop {
        let mut named = BTreeSet::new();
        for file in files {
            for (function, names) in &file.names {
                let is_inner = file.inner.contains(function);
                if is_inner && only.contains(last(function)) {
                    continue;
                }
                // A function does not become reachable by calling itself.
                let names = names.iter().map(String::as_str);
                named.extend(names.filter(|name| !is_inner || *name != last(function)));
            }
        }
        let inner = files.iter().flat_map(|file| &file.inner);
        let more: BTreeSet<String> = inner
            .filter(|name| !named.contains(last(name)))
            .map(|name| last(name).into())
            .collect();
        if more == only {
            return only;
        }
        only = more;
    }
}

/// Returns a function's own name, without its path.
pub(super) fn last(function: &str) -> &str {
    function.rsplit("::").next().unwrap_or_default()
}

pub(super) struct Finder<'s> {
    source: &'s str,
    known: &'s Known,
    found: Found,
    /// The enclosing type and function.
    of: Vec<String>,
    /// Variables that tell whether a defect is present.
    flags: Vec<String>,
    /// Variables that only defects use.
    unasked: BTreeSet<String>,
    /// Whether the enclosing item implements a trait. The callers of its functions are then unknown.
    in_trait: bool,
}

impl<'s> Finder<'s> {
    pub(super) fn new(source: &'s str, known: &'s Known) -> Self {
        Self {
            source,
            known,
            found: Found::default(),
            of: Vec::new(),
            flags: Vec::new(),
            unasked: BTreeSet::new(),
            in_trait: false,
        }
    }
}

impl Finder<'_> {
    fn text(&self, of: &impl Spanned) -> String {
        self.source[of.span().byte_range()].to_owned()
    }

    fn add(&mut self, at: &impl Spanned, range: Range<usize>, form: Form) {
        self.found.sites.push(Site {
            range,
            line: at.span().start().line,
            function: self.of.join("::"),
            form,
        });
    }

    fn instead(&mut self, expr: &impl Spanned, texts: Vec<String>) {
        let range = expr.span().byte_range();
        let there = self.found.sites.iter_mut().find(|site| site.range == range);
        if let Some(Form::Instead(others)) = there.map(|site| &mut site.form) {
            others.extend(texts);
        } else {
            self.add(expr, range, Form::Instead(texts));
        }
    }

    /// Returns whether an expression can be true only if a defect is present.
    pub(super) fn is_defect(&self, expr: &syn::Expr) -> bool {
        match expr {
            syn::Expr::MethodCall(call) if call.method == "has" => {
                let receiver = self.text(&call.receiver);
                receiver.ends_with("faults") || receiver.ends_with("cx") || self.text(&call.args).contains("Defect::")
            }
            syn::Expr::MethodCall(call) => self.known.of_defects.contains(&call.method.to_string()),
            syn::Expr::Path(path) => path
                .path
                .get_ident()
                .is_some_and(|name| self.flags.contains(&name.to_string())),
            syn::Expr::Paren(inner) => self.is_defect(&inner.expr),
            syn::Expr::Binary(binary) => match binary.op {
                syn::BinOp::And(_) => self.is_defect(&binary.left) || self.is_defect(&binary.right),
                syn::BinOp::Or(_) => self.is_defect(&binary.left) && self.is_defect(&binary.right),
                _ => false,
            },
            syn::Expr::Block(block) => match &block.block.stmts[..] {
                [syn::Stmt::Expr(only, None)] => self.is_defect(only),
                _ => false,
            },
            syn::Expr::Match(of) => of.arms.iter().all(|arm| {
                let guarded = arm.guard.as_ref().is_some_and(|(_, guard)| self.is_defect(guard));
                guarded || self.text(&arm.body) == "false" || self.is_defect(&arm.body)
            }),
            _ => false,
        }
    }

    /// Returns whether an expression is always true on a device without defects.
    fn is_no_defect(&self, expr: &syn::Expr) -> bool {
        match expr {
            syn::Expr::Unary(not) if matches!(not.op, syn::UnOp::Not(_)) => self.is_defect(&not.expr),
            syn::Expr::Paren(inner) => self.is_no_defect(&inner.expr),
            syn::Expr::Binary(binary) => match binary.op {
                syn::BinOp::And(_) => self.is_no_defect(&binary.left) && self.is_no_defect(&binary.right),
                syn::BinOp::Or(_) => self.is_no_defect(&binary.left) || self.is_no_defect(&binary.right),
                _ => false,
            },
            _ => false,
        }
    }

    /// Adds the negation of a part of a condition. The visit of a comparison or of `!` adds its own change.
    fn condition(&mut self, expr: &syn::Expr) {
        use syn::Expr;
        match expr {
            Expr::Paren(inner) => self.condition(&inner.expr),
            // The architecture leaves these choices open, so both values conform.
            Expr::Field(_) if self.text(expr).contains("choices.") => {}
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Path(_) | Expr::Field(_) if !self.is_defect(expr) => {
                let negated = format!("!({})", self.text(expr));
                self.instead(expr, vec![negated]);
            }
            _ => {}
        }
    }

    fn binary(&mut self, expr: &syn::ExprBinary) {
        use syn::BinOp as Op;
        let others: &[&str] = match expr.op {
            Op::And(_) | Op::Or(_) => {
                for side in [&expr.left, &expr.right] {
                    self.condition(side);
                }
                let is_odd = |side: &syn::Expr| self.is_defect(side) || self.is_no_defect(side) || has_let(side);
                if is_odd(&expr.left) || is_odd(&expr.right) {
                    return;
                }
                if matches!(expr.op, Op::And(_)) {
                    &["||"]
                } else {
                    &["&&"]
                }
            }
            Op::Eq(_) => &["!="],
            Op::Ne(_) => &["=="],
            Op::Lt(_) => &["<=", ">"],
            Op::Le(_) => &["<", ">"],
            Op::Gt(_) => &[">=", "<"],
            Op::Ge(_) => &[">", "<"],
            Op::Add(_) => &["-", "*"],
            Op::Sub(_) => &["+", "/"],
            Op::Mul(_) => &["+", "/"],
            Op::Div(_) => &["*", "%"],
            Op::Rem(_) => &["/", "+"],
            Op::BitAnd(_) => &["|", "^"],
            Op::BitOr(_) => &["&", "^"],
            Op::BitXor(_) => &["&", "|"],
            Op::Shl(_) => &[">>"],
            Op::Shr(_) => &["<<"],
            Op::AddAssign(_) => &["-="],
            Op::SubAssign(_) => &["+="],
            Op::BitAndAssign(_) => &["|="],
            Op::BitOrAssign(_) => &["&="],
            Op::BitXorAssign(_) => &["|="],
            _ => return,
        };
        let (left, right) = (self.text(&expr.left), self.text(&expr.right));
        let texts = others.iter().map(|op| format!("{left} {op} {right}")).collect();
        self.instead(expr, texts);
    }

    fn literal(&mut self, literal: &syn::Lit) {
        let texts = match literal {
            syn::Lit::Bool(value) => vec![(!value.value).to_string()],
            syn::Lit::Int(value) => {
                let Ok(number) = value.base10_parse::<u128>() else {
                    return;
                };
                let below = number.checked_sub(1);
                let around = [Some(number + 1), below].into_iter().flatten();
                around.map(|number| format!("{number}{}", value.suffix())).collect()
            }
            _ => return,
        };
        self.instead(literal, texts);
    }

    /// Adds the negation of a `matches!`. Also adds, for each alternative of the pattern, the pattern without the
    /// alternative.
    fn matches(&mut self, expr: &syn::ExprMacro) {
        let tokens = &expr.mac.tokens;
        let parsed = syn::parse::Parser::parse2(
            |input: syn::parse::ParseStream<'_>| {
                let value: syn::Expr = input.parse()?;
                input.parse::<syn::Token![,]>()?;
                let pattern = syn::Pat::parse_multi_with_leading_vert(input)?;
                let guarded = !input.is_empty();
                input.parse::<proc_macro2::TokenStream>()?;
                Ok((value, pattern, guarded))
            },
            tokens.clone(),
        );
        let mut texts = vec![format!("!({})", self.text(expr))];
        if let Ok((value, syn::Pat::Or(any), false)) = parsed {
            for left_out in 0..any.cases.len() {
                let kept = any.cases.iter().enumerate().filter(|(place, _)| *place != left_out);
                let kept: Vec<_> = kept.map(|(_, case)| self.text(case)).collect();
                texts.push(format!("matches!({}, {})", self.text(&value), kept.join(" | ")));
            }
        }
        self.instead(expr, texts);
    }

    fn names(&mut self, names: impl IntoIterator<Item = String>) {
        self.found.names.entry(self.of.join("::")).or_default().extend(names);
    }

    fn function(
        &mut self,
        signature: &syn::Signature,
        attributes: &[syn::Attribute],
        visibility: Option<&syn::Visibility>,
        block: &syn::Block,
    ) {
        let says = |word: &str| attributes.iter().any(|attribute| self.text(attribute).contains(word));
        let is_of_defect = self.known.of_defects.contains(&signature.ident.to_string());
        if says("cfg(test)") || says("a defective") || is_of_defect {
            return;
        }
        if signature.constness.is_some() {
            self.names(identifiers(quote::ToTokens::to_token_stream(block)));
            return;
        }
        self.of.push(signature.ident.to_string());
        if visibility.is_some_and(|visibility| !matches!(visibility, syn::Visibility::Public(_))) {
            self.found.inner.insert(self.of.join("::"));
        }
        let values = match &signature.output {
            syn::ReturnType::Default => vec![String::new()],
            syn::ReturnType::Type(_, ty) => values(ty, &self.text(ty)),
        };
        let inside = block.span().byte_range().start + 1;
        if self.of.first().is_some_and(|of| of == "Adapter") && signature.receiver().is_some() {
            self.add(signature, inside..inside, Form::Adapter);
        }
        if !values.is_empty() && !block.stmts.is_empty() {
            self.add(signature, inside..inside, Form::Body(values));
        }
        let outer = (std::mem::take(&mut self.flags), std::mem::take(&mut self.unasked));
        // A variable that only defects use may be the only user of another variable, so repeat until nothing changes.
        loop {
            let (sites, names) = (
                self.found.sites.len(),
                self.found.names.get(&self.of.join("::")).cloned(),
            );
            self.flags.clear();
            self.visit_block(block);
            let named = self.found.names.get(&self.of.join("::"));
            let mut variables = Variables::default();
            variables.visit_block(block);
            let is_unasked = |name: &String| named.is_none_or(|named| !named.contains(name));
            let unasked = variables.0.into_iter().filter(is_unasked).collect();
            // The set only grows: more code is left out in each round, and code that is left out uses no variables.
            if self.unasked.is_superset(&unasked) {
                break;
            }
            self.unasked = unasked;
            self.found.sites.truncate(sites);
            self.found.names.insert(self.of.join("::"), names.unwrap_or_default());
        }
        (self.flags, self.unasked) = outer;
        self.of.pop();
    }
}

/// Returns all names in some code.
fn identifiers(tokens: proc_macro2::TokenStream) -> Vec<String> {
    let of = |tree| match tree {
        proc_macro2::TokenTree::Ident(name) => vec![name.to_string()],
        proc_macro2::TokenTree::Group(group) => identifiers(group.stream()),
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(of).collect()
}

fn is_assignment(expr: &syn::Expr) -> bool {
    use syn::BinOp as Op;
    matches!(expr, syn::Expr::Binary(binary) if matches!(
        binary.op,
        Op::AddAssign(_) | Op::SubAssign(_) | Op::MulAssign(_) | Op::DivAssign(_) | Op::RemAssign(_)
            | Op::BitAndAssign(_) | Op::BitOrAssign(_) | Op::BitXorAssign(_) | Op::ShlAssign(_) | Op::ShrAssign(_)
    ))
}

fn is_true(pattern: &syn::Pat) -> bool {
    let syn::Pat::Lit(only) = pattern else { return false };
    matches!(&only.lit, syn::Lit::Bool(value) if value.value)
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

const INTEGERS: [&str; 12] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
];

pub(super) fn is_integer(ty: &syn::Type) -> bool {
    matches!(ty, syn::Type::Path(path) if INTEGERS.iter().any(|name| path.path.is_ident(name)))
}

/// Returns replacements for a function's return value. Returns none if no value of the type is known.
fn values(ty: &syn::Type, text: &str) -> Vec<String> {
    let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    match ty {
        syn::Type::Reference(_) | syn::Type::ImplTrait(_) | syn::Type::Never(_) => Vec::new(),
        _ if text == "bool" => strings(&["true", "false"]),
        _ if is_integer(ty) => strings(&["0", "1"]),
        _ if text.starts_with("Option<") => strings(&["None"]),
        _ if text.starts_with("Result<()") => strings(&["Ok(())"]),
        _ if text.starts_with("Result<") => strings(&["Ok(Default::default())"]),
        _ => strings(&["Default::default()"]),
    }
}
