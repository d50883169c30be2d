//! The terms of a sandbox that can change while it runs. A change marks the row as unapplied. The
//! mark is removed when the host has the new terms.

use pandastack_database::{query, query_as, query_scalar};
use pandastack_model::{Egress, SandboxId};

use super::{
    IdleLimit, Store, StoreError, failed, from_sql,
    intent::{column, egress_to_sql, read_id},
    to_sql,
};

/// A kind of term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    Egress,
    IdleLimit,
}

/// The idle limit of a row, and the limit that a promotion sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLimit {
    pub limit: IdleLimit,
    pub promoted: Option<IdleLimit>,
}

impl Term {
    const ALL: [Term; 2] = [Term::Egress, Term::IdleLimit];

    fn bit(self) -> i64 {
        match self {
            Term::Egress => 1,
            Term::IdleLimit => 2,
        }
    }
}

impl Store {
    /// Changes the egress rules of a sandbox, and marks them as unapplied.
    pub async fn set_egress(&self, id: SandboxId, egress: &Egress) -> Result<(), StoreError> {
        query("UPDATE sandbox SET egress = ?, unapplied_terms = unapplied_terms | ? WHERE id = ?")
            .bind(egress_to_sql(egress))
            .bind(Term::Egress.bit())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("change a sandbox's egress"))
    }

    /// Changes the idle limit and the limit of a promotion, and marks them as unapplied.
    pub async fn set_idle_limit(&self, id: SandboxId, kept: StoredLimit) -> Result<(), StoreError> {
        let sql = "UPDATE sandbox SET ttl_seconds = ?, persistent = ?, promoted_ttl_seconds = ?,
                       promoted_persistent = ?, unapplied_terms = unapplied_terms | ? WHERE id = ?";
        query(sql)
            .bind(to_sql(kept.limit.ttl_seconds))
            .bind(kept.limit.persistent)
            .bind(kept.promoted.map(|limit| to_sql(limit.ttl_seconds)))
            .bind(kept.promoted.map(|limit| limit.persistent))
            .bind(Term::IdleLimit.bit())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("change a sandbox's idle limit"))
    }

    /// Records that the host has the terms of the row.
    pub async fn mark_applied(&self, id: SandboxId, term: Term) -> Result<(), StoreError> {
        query("UPDATE sandbox SET unapplied_terms = unapplied_terms & ~? WHERE id = ?")
            .bind(term.bit())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record applied terms"))
    }

    /// Lists the terms that the host may not have.
    pub async fn unapplied_terms(&self) -> Result<Vec<(SandboxId, Term)>, StoreError> {
        let rows = query("SELECT id, unapplied_terms FROM sandbox WHERE unapplied_terms <> 0")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list unapplied terms"))?;
        let mut found = Vec::new();
        for row in &rows {
            let (id, bits) = (read_id(row)?, column::<i64>(row, "unapplied_terms")?);
            found.extend(Term::ALL.into_iter().filter(|term| bits & term.bit() != 0).map(|term| (id, term)));
        }
        Ok(found)
    }

    /// Reads the idle limit of a row; `None` if there is no row.
    pub async fn idle_limit(&self, id: SandboxId) -> Result<Option<StoredLimit>, StoreError> {
        let sql = "SELECT ttl_seconds, persistent, promoted_ttl_seconds, promoted_persistent FROM sandbox WHERE id = ?";
        let found: Option<(i64, bool, Option<i64>, Option<bool>)> = query_as(sql)
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("read a sandbox's idle limit"))?;
        let limit = |ttl_seconds, persistent| IdleLimit { ttl_seconds: from_sql(ttl_seconds), persistent };
        Ok(found.map(|(ttl, persistent, promoted_ttl, promoted_persistent)| StoredLimit {
            limit: limit(ttl, persistent),
            promoted: promoted_ttl.zip(promoted_persistent).map(|(ttl, persistent)| limit(ttl, persistent)),
        }))
    }

    /// Reads the egress rules of a row; `None` if there is no row.
    pub async fn egress_of(&self, id: SandboxId) -> Result<Option<Egress>, StoreError> {
        let found: Option<Option<String>> = query_scalar("SELECT egress FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("read a sandbox's egress"))?;
        let corrupt = || StoreError::Corrupt { id: id.to_string(), field: "egress" };
        found.map(|text| super::intent::read_egress(text).ok_or_else(corrupt)).transpose()
    }
}
