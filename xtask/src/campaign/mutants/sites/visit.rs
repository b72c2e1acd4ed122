//! The walk over the syntax tree that finds the sites and their forms.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Finder, Form, has_let, identifiers, is_assignment, is_true};
use crate::campaign::mutants::known::bound;

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item
            .attrs
            .iter()
            .any(|attribute| self.text(attribute).contains("cfg(test)"))
        {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of_people = ["Display", "Debug", "FromStr", "Default", "Error"];
        let is_for_people = item.trait_.as_ref().is_some_and(|(_, path, _)| {
            path.segments
                .last()
                .is_some_and(|last| of_people.contains(&last.ident.to_string().as_str()))
        });
        if !is_for_people {
            let name = self.text(&item.self_ty);
            self.of
                .push(name.split(['<', ' ']).next().unwrap_or_default().to_owned());
            self.in_trait = item.trait_.is_some();
            visit::visit_item_impl(self, item);
            self.in_trait = false;
            self.of.pop();
        } else {
            self.names(identifiers(quote::ToTokens::to_token_stream(item)));
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.attrs, Some(&item.vis), &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let visibility = if self.in_trait { None } else { Some(&item.vis) };
        self.function(&item.sig, &item.attrs, visibility, &item.block);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.names(identifiers(quote::ToTokens::to_token_stream(item)));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.names(identifiers(quote::ToTokens::to_token_stream(item)));
    }

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_macro(&mut self, _: &'ast syn::ItemMacro) {}

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        self.names(identifiers(of.tokens.clone()));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.names(path.segments.last().map(|last| last.ident.to_string()));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.names([call.method.to_string()]);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        use syn::Expr;
        match statement {
            syn::Stmt::Expr(expr, Some(_))
                if matches!(
                    expr,
                    Expr::MethodCall(_)
                        | Expr::Call(_)
                        | Expr::Assign(_)
                        | Expr::Try(_)
                        | Expr::Return(_)
                        | Expr::Break(_)
                        | Expr::Continue(_)
                ) || is_assignment(expr) =>
            {
                self.add(statement, statement.span().byte_range(), Form::Statement);
            }
            syn::Stmt::Local(local) => {
                if let (syn::Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
                    && self.is_defect(&init.expr)
                {
                    self.flags.push(name.ident.to_string());
                    return;
                }
                let bound = bound(&local.pat);
                if !bound.is_empty() && bound.is_subset(&self.unasked) {
                    return;
                }
            }
            _ => {}
        }
        visit::visit_stmt(self, statement);
    }

    /// Visits a `let`. The last statement of the `else` block must leave the enclosing block, so the walk adds no site
    /// for the statement.
    fn visit_local_init(&mut self, init: &'ast syn::LocalInit) {
        self.visit_expr(&init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            let before = self.found.sites.len();
            self.visit_expr(otherwise);
            let last = match &**otherwise {
                syn::Expr::Block(block) => block.block.stmts.last().map(|last| last.span().byte_range()),
                _ => None,
            };
            let mut place = 0;
            self.found.sites.retain(|site| {
                place += 1;
                place <= before || !matches!(site.form, Form::Statement) || Some(&site.range) != last.as_ref()
            });
        }
    }

    /// Visits a block. Statements after `if !faults.has(..) { return .. }` belong to the defect and are left out.
    fn visit_block(&mut self, block: &'ast syn::Block) {
        for statement in &block.stmts {
            self.visit_stmt(statement);
            if let syn::Stmt::Expr(syn::Expr::If(only), _) = statement
                && only.else_branch.is_none()
                && self.is_no_defect(&only.cond)
                && matches!(
                    only.then_branch.stmts.last(),
                    Some(syn::Stmt::Expr(syn::Expr::Return(_), _))
                )
            {
                return;
            }
        }
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond);
        self.visit_expr(&expr.cond);
        if !self.is_defect(&expr.cond) {
            self.visit_block(&expr.then_branch);
        }
        if let Some((_, otherwise)) = &expr.else_branch
            && !self.is_no_defect(&expr.cond)
        {
            self.visit_expr(otherwise);
        }
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        self.visit_expr(&expr.expr);
        let catches_all = |arm: &syn::Arm| {
            arm.guard.is_none()
                && match &arm.pat {
                    syn::Pat::Wild(_) => true,
                    // A name that begins with a capital letter is a constant, such as `None`.
                    syn::Pat::Ident(name) => name.ident.to_string().starts_with(|first: char| first.is_lowercase()),
                    _ => false,
                }
        };
        let has_rest = expr.arms.last().is_some_and(catches_all);
        // Skip a match that only selects a defect: the match is no behaviour of the device.
        if expr
            .arms
            .iter()
            .any(|arm| self.text(&arm.body).contains("Defect::") && matches!(*arm.body, syn::Expr::Path(_)))
        {
            return;
        }
        let of_defect = self.is_defect(&expr.expr);
        for arm in &expr.arms {
            let guard = arm.guard.as_ref().map(|(_, guard)| &**guard);
            if of_defect && is_true(&arm.pat) || guard.is_some_and(|guard| self.is_defect(guard)) {
                continue;
            }
            if has_rest && !catches_all(arm) && !guard.is_some_and(has_let) {
                let end = arm.pat.span().byte_range().end;
                let (guarded, range) = match guard {
                    Some(guard) => (true, guard.span().byte_range()),
                    None => (false, end..end),
                };
                let pattern = self.text(&arm.pat);
                self.add(arm, range, Form::Arm { guarded, pattern });
            }
            if let Some(guard) = guard {
                self.condition(guard);
                self.visit_expr(guard);
            }
            self.visit_expr(&arm.body);
        }
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr(&mut self, expr: &'ast syn::Expr) {
        use syn::Expr;
        match expr {
            _ if self.is_defect(expr) || self.is_no_defect(expr) => return,
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) if !self.is_no_defect(expr) => {
                if matches!(unary.op, syn::UnOp::Not(_) | syn::UnOp::Neg(_)) {
                    let without = self.text(&unary.expr);
                    self.instead(expr, vec![without]);
                }
            }
            Expr::Lit(literal) => self.literal(&literal.lit),
            Expr::Macro(of) if of.mac.path.is_ident("matches") => self.matches(of),
            Expr::Path(path) => {
                if let Some(name) = path.path.get_ident().map(ToString::to_string)
                    && self.known.constants.contains(&name)
                {
                    self.instead(expr, vec![format!("({name} + 1)"), format!("({name} - 1)")]);
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }
}
