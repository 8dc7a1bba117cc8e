//! Audit, names claimed once, token ids, API keys, what was rendered, leases.

use std::collections::BTreeMap;

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::SqlStore;
use super::value::{column, from_json, text, to_json, unsigned};
use crate::clock::Millis;
use crate::run::model::AuditEntry;
use crate::store::dialect::Dialect;
use crate::store::rules::audit_pr;
use crate::store::{ApiKey, Lease, Rendered, Result};

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> Option<i64>: Encode<'q, DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn write_audit(&self, entry: &AuditEntry) -> Result<()> {
        let mut conn = self.writer.acquire().await?;
        Self::insert_audit(&mut conn, entry).await
    }

    pub(super) async fn insert_audit(conn: &mut DB::Connection, entry: &AuditEntry) -> Result<()> {
        query("insert into audit (at, actor, action, target, pr_number, details) values ($1, $2, $3, $4, $5, $6)")
            .bind(entry.at)
            .bind(text(&entry.actor))
            .bind(text(&entry.action))
            .bind(text(&entry.target))
            .bind(audit_pr(entry))
            .bind(to_json(&entry.details))
            .execute(&mut *conn)
            .await?;
        Ok(())
    }

    pub(super) async fn list_audit(&self, limit: u32, before_id: Option<i64>) -> Result<Vec<(i64, AuditEntry)>> {
        query("select id, at, actor, action, target, details from audit where id < $1 order by id desc limit $2")
            .bind(before_id.unwrap_or(i64::MAX))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(|row| {
                let id: i64 = column::<DB, _>(row, 0)?;
                let entry = AuditEntry {
                    at: column::<DB, _>(row, 1)?,
                    actor: column::<DB, _>(row, 2)?,
                    action: column::<DB, _>(row, 3)?,
                    target: column::<DB, _>(row, 4)?,
                    details: from_json("audit", &id.to_string(), &column::<DB, String>(row, 5)?)?,
                };
                Ok((id, entry))
            })
            .collect()
    }

    pub(super) async fn count_audit(
        &self,
        action: &str,
        target: &str,
        pr_number: Option<i64>,
        since: Millis,
    ) -> Result<u32> {
        let mut count = QueryBuilder::<DB>::new("select count(*) from audit where action = ");
        count.push_bind(text(action)).push(" and target = ").push_bind(text(target));
        count.push(" and at >= ").push_bind(since);
        if let Some(pr_number) = pr_number {
            count.push(" and pr_number = ").push_bind(pr_number);
        }
        let row = count.build().fetch_one(&self.pool).await?;
        unsigned("audit", column::<DB, _>(&row, 0)?)
    }

    pub(super) async fn is_claimed(&self, once: &str) -> Result<bool> {
        let found = query("select name from once where name = $1").bind(text(once)).fetch_optional(&self.pool).await?;
        Ok(found.is_some())
    }

    pub(super) async fn claim_token_id(&self, jti: &str, expires_at: Millis, now: Millis) -> Result<bool> {
        let done = query(
            "insert into oidc_jtis (jti, expires_at) values ($1, $2)
             on conflict (jti) do update set expires_at = excluded.expires_at where oidc_jtis.expires_at <= $3",
        )
        .bind(text(jti))
        .bind(expires_at)
        .bind(now)
        .execute(&self.writer)
        .await?;
        Ok(DB::rows_affected(&done) == 1)
    }

    /// A revocation stays, and the newest use counts: a request that read the key earlier must not undo either.
    pub(super) async fn write_api_key(&self, key: &ApiKey) -> Result<()> {
        query(
            "insert into api_keys (id, key_hash, last_used_at, revoked_at, body) values ($1, $2, $3, $4, $5)
             on conflict (id) do update set key_hash = excluded.key_hash, body = excluded.body,
             revoked_at = coalesce(api_keys.revoked_at, excluded.revoked_at),
             last_used_at = case when api_keys.last_used_at > excluded.last_used_at or excluded.last_used_at is null
                 then api_keys.last_used_at else excluded.last_used_at end",
        )
        .bind(text(&key.id))
        .bind(text(&key.key_hash))
        .bind(key.last_used_at)
        .bind(key.revoked_at)
        .bind(to_json(key))
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    pub(super) async fn stamp_api_key(&self, id: &str, at: Millis) -> Result<()> {
        query("update api_keys set last_used_at = $2 where id = $1 and (last_used_at is null or last_used_at < $2)")
            .bind(text(id))
            .bind(at)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    pub(super) async fn find_api_key(&self, hash: &str) -> Result<Option<ApiKey>> {
        let found = query("select id, last_used_at, revoked_at, body from api_keys where key_hash = $1")
            .bind(text(hash))
            .fetch_optional(&self.pool)
            .await?;
        found.as_ref().map(Self::api_key_from).transpose()
    }

    pub(super) async fn list_api_keys(&self) -> Result<Vec<ApiKey>> {
        let found =
            query("select id, last_used_at, revoked_at, body from api_keys order by id").fetch_all(&self.pool).await?;
        let mut keys = found.iter().map(Self::api_key_from).collect::<Result<Vec<ApiKey>>>()?;
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    fn api_key_from(row: &DB::Row) -> Result<ApiKey> {
        let id: String = column::<DB, _>(row, 0)?;
        let key: ApiKey = from_json("api_keys", &id, &column::<DB, String>(row, 3)?)?;
        Ok(ApiKey { last_used_at: column::<DB, _>(row, 1)?, revoked_at: column::<DB, _>(row, 2)?, ..key })
    }

    pub(super) async fn find_rendered(&self, scope: &str, name: &str) -> Result<Option<Rendered>> {
        let found = query("select github_id, digest, written_at from rendered where scope = $1 and name = $2")
            .bind(text(scope))
            .bind(text(name))
            .fetch_optional(&self.pool)
            .await?;
        found.map(|row| Self::rendered_from(&row)).transpose()
    }

    fn rendered_from(row: &DB::Row) -> Result<Rendered> {
        Ok(Rendered {
            github_id: column::<DB, _>(row, 0)?,
            digest: column::<DB, _>(row, 1)?,
            written_at: column::<DB, _>(row, 2)?,
        })
    }

    pub(super) async fn list_rendered(&self, scope: &str) -> Result<BTreeMap<String, Rendered>> {
        query("select github_id, digest, written_at, name from rendered where scope = $1")
            .bind(text(scope))
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(|row| Ok((column::<DB, _>(row, 3)?, Self::rendered_from(row)?)))
            .collect()
    }

    pub(super) async fn write_rendered(&self, scope: &str, name: &str, rendered: &Rendered) -> Result<()> {
        query(
            "insert into rendered (scope, name, github_id, digest, written_at) values ($1, $2, $3, $4, $5)
             on conflict (scope, name) do update set github_id = excluded.github_id, digest = excluded.digest,
             written_at = excluded.written_at",
        )
        .bind(text(scope))
        .bind(text(name))
        .bind(rendered.github_id)
        .bind(text(&rendered.digest))
        .bind(rendered.written_at)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    pub(super) async fn claim_lease(&self, name: &str, holder: &str, now: Millis, ttl_ms: Millis) -> Result<bool> {
        let done = query(
            "insert into leases (name, holder, expires_at) values ($1, $2, $3)
             on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
             where leases.holder = excluded.holder or leases.expires_at <= $4",
        )
        .bind(text(name))
        .bind(text(holder))
        .bind(now.saturating_add(ttl_ms))
        .bind(now)
        .execute(&self.writer)
        .await?;
        Ok(DB::rows_affected(&done) == 1)
    }

    pub(super) async fn drop_lease(&self, name: &str, holder: &str) -> Result<()> {
        query("delete from leases where name = $1 and holder = $2")
            .bind(text(name))
            .bind(text(holder))
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    pub(super) async fn find_lease(&self, name: &str) -> Result<Option<Lease>> {
        let found = query("select holder, expires_at from leases where name = $1")
            .bind(text(name))
            .fetch_optional(&self.pool)
            .await?;
        found
            .map(|row| Ok(Lease { holder: column::<DB, _>(&row, 0)?, expires_at: column::<DB, _>(&row, 1)? }))
            .transpose()
    }

    pub(super) async fn end_all_claims(&self) -> Result<()> {
        for statement in [
            "update deliveries set claimed_until = 0 where claimed_by is not null",
            "update jobs set claimed_until = 0 where claimed_by is not null",
            "delete from leases",
        ] {
            query(statement).execute(&self.writer).await?;
        }
        Ok(())
    }

    pub(super) async fn answer(&self) -> Result<()> {
        query("select 1").execute(&self.pool).await?;
        Ok(())
    }
}
