#!/bin/sh
# Runs once, when the volume of Postgres is new: the role of the vault owns its database and is no superuser.
set -eu
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set password `cat /run/secrets/POSTGRES_VAULT_PASSWORD`
create role vault login password :'password';
create database vault owner vault;
SQL
