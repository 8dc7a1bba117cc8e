//! Installations and repositories.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Type, query};

use super::SqlStore;
use super::value::{column, from_json, text, to_json};
use crate::config::model::RepoConfig;
use crate::ids::{RepoName, Sha};
use crate::run::model::Repo;
use crate::store::dialect::Dialect;
use crate::store::{Installation, Result};

/// The columns of [`SqlStore::repo_from`]; a literal, so that each statement stays one.
macro_rules! select_repo {
    ($rest:literal) => {
        concat!(
            "select repos.id, installation_id, full_name, default_branch, private, suspended, config, config_sha, \
             default_graph from repos join installations on installations.id = installation_id ",
            $rest
        )
    };
}

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> bool: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn find_repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        let mut conn = self.pool.acquire().await?;
        Self::read_repo(&mut conn, repo_id).await
    }

    pub(super) async fn read_repo(conn: &mut DB::Connection, repo_id: i64) -> Result<Option<Repo>> {
        let found = query(select_repo!("where repos.id = $1")).bind(repo_id).fetch_optional(&mut *conn).await?;
        found.as_ref().map(Self::repo_from).transpose()
    }

    pub(super) async fn find_repo_by_name(&self, name: &RepoName) -> Result<Option<Repo>> {
        let found = query(select_repo!("where lower(full_name) = lower($1)"))
            .bind(text(name))
            .fetch_optional(&self.pool)
            .await?;
        found.as_ref().map(Self::repo_from).transpose()
    }

    pub(super) async fn list_repos(&self) -> Result<Vec<Repo>> {
        let found = query(select_repo!("order by repos.id")).fetch_all(&self.pool).await?;
        let mut repos = found.iter().map(Self::repo_from).collect::<Result<Vec<Repo>>>()?;
        repos.sort_by(|a, b| a.full_name.cmp(&b.full_name));
        Ok(repos)
    }

    fn repo_from(row: &DB::Row) -> Result<Repo> {
        let id: i64 = column::<DB, _>(row, 0)?;
        let config: Option<String> = column::<DB, _>(row, 6)?;
        let default_graph: Option<String> = column::<DB, _>(row, 8)?;
        Ok(Repo {
            id,
            installation_id: column::<DB, _>(row, 1)?,
            full_name: RepoName::parse(&column::<DB, String>(row, 2)?).map_err(|error| ("repos", error))?,
            default_branch: column::<DB, _>(row, 3)?,
            private: column::<DB, _>(row, 4)?,
            suspended: column::<DB, _>(row, 5)?,
            config: config.map(|body| from_json("repos", &id.to_string(), &body)).transpose()?,
            config_sha: column::<DB, _>(row, 7)?,
            default_graph: default_graph.map(|sha| Sha::parse(&sha)).transpose().map_err(|error| ("repos", error))?,
        })
    }

    pub(super) async fn write_repo(&self, repo: &Repo) -> Result<()> {
        query(
            "insert into repos (id, installation_id, full_name, default_branch, private, config_sha)
             values ($1, $2, $3, $4, $5, '')
             on conflict (id) do update set installation_id = excluded.installation_id, full_name = excluded.full_name,
             default_branch = excluded.default_branch, private = excluded.private",
        )
        .bind(repo.id)
        .bind(repo.installation_id)
        .bind(text(&repo.full_name))
        .bind(text(&repo.default_branch))
        .bind(repo.private)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    pub(super) async fn write_config(&self, repo_id: i64, config: Option<&RepoConfig>, sha: &str) -> Result<()>
    where
        for<'q> Option<String>: Encode<'q, DB>,
    {
        query("update repos set config = $2, config_sha = $3 where id = $1")
            .bind(repo_id)
            .bind(config.map(to_json))
            .bind(text(sha))
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    pub(super) async fn forget_repo(&self, repo_id: i64) -> Result<()> {
        query("delete from repos where id = $1").bind(repo_id).execute(&self.writer).await?;
        Ok(())
    }

    pub(super) async fn list_installations(&self) -> Result<Vec<Installation>> {
        query("select id, account, account_type, suspended from installations order by id")
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(|row| {
                Ok(Installation {
                    id: column::<DB, _>(row, 0)?,
                    account: column::<DB, _>(row, 1)?,
                    account_type: column::<DB, _>(row, 2)?,
                    suspended: column::<DB, _>(row, 3)?,
                })
            })
            .collect()
    }

    pub(super) async fn write_installation(&self, installation: &Installation) -> Result<()> {
        query(
            "insert into installations (id, account, account_type, suspended) values ($1, $2, $3, $4)
             on conflict (id) do update set account = excluded.account, account_type = excluded.account_type,
             suspended = excluded.suspended",
        )
        .bind(installation.id)
        .bind(text(&installation.account))
        .bind(text(&installation.account_type))
        .bind(installation.suspended)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    pub(super) async fn forget_installation(&self, id: i64) -> Result<()> {
        query("delete from installations where id = $1").bind(id).execute(&self.writer).await?;
        Ok(())
    }
}
