-- The catalogue of Postgres for one table: see queries/catalogue.py, which gives `attributes` and `kinds`.
-- A line "TABLE name column…" makes an empty table: # are numbers, ? truth values, * lists of numbers, others texts.
CREATE SCHEMA pg;
CREATE SCHEMA info;
TABLE pg.pg_namespace oid# nspname nspowner# nspacl
TABLE pg.pg_class oid# relname relnamespace# reltype# reloftype# relowner# relam# relfilenode# reltablespace# relpages# reltuples# relallvisible# reltoastrelid# relhasindex? relisshared? relpersistence relkind relnatts# relchecks# relhasrules? relhastriggers? relhassubclass? relrowsecurity? relforcerowsecurity? relispopulated? relreplident relispartition? relrewrite# relfrozenxid# relminmxid# relacl reloptions relpartbound
TABLE pg.pg_attribute attrelid# attname atttypid# attstattarget# attlen# attnum# attndims# attcacheoff# atttypmod# attbyval? attalign attstorage attcompression attnotnull? atthasdef? atthasmissing? attidentity attgenerated attisdropped? attislocal? attinhcount# attcollation# attacl attoptions attfdwoptions attmissingval
TABLE pg.pg_type oid# typname typnamespace# typowner# typlen# typbyval? typtype typcategory typispreferred? typisdefined? typdelim typrelid# typelem# typarray# typinput typoutput typnotnull? typbasetype# typtypmod# typndims# typcollation# typdefault
TABLE pg.pg_attrdef oid# adrelid# adnum# adbin
TABLE pg.pg_description objoid# classoid# objsubid# description
TABLE pg.pg_shdescription objoid# classoid# description
TABLE pg.pg_index indexrelid# indrelid# indnatts# indnkeyatts# indisunique? indisprimary? indisexclusion? indimmediate? indisclustered? indisvalid? indisready? indislive? indisreplident? indnullsnotdistinct? indkey* indcollation* indclass* indoption* indexprs indpred
TABLE pg.pg_constraint oid# conname connamespace# contype condeferrable? condeferred? convalidated? conrelid# contypid# conindid# conparentid# confrelid# confupdtype confdeltype confmatchtype conislocal? coninhcount# connoinherit? conkey* confkey* conbin
TABLE pg.pg_am oid# amname amhandler amtype
TABLE pg.pg_collation oid# collname collnamespace# collprovider collisdeterministic? collencoding#
TABLE pg.pg_roles oid# rolname rolsuper? rolinherit? rolcreaterole? rolcreatedb? rolcanlogin? rolreplication? rolconnlimit# rolvaliduntil rolbypassrls?
TABLE pg.pg_database oid# datname datdba# encoding# datlocprovider datistemplate? datallowconn? datconnlimit# datcollate datctype daticulocale datcollversion dattablespace# datacl
TABLE pg.pg_settings name setting unit category short_desc context vartype source min_val max_val boot_val reset_val
TABLE pg.pg_inherits inhrelid# inhparent# inhseqno# inhdetachpending?
TABLE pg.pg_enum oid# enumtypid# enumsortorder# enumlabel
TABLE pg.pg_range rngtypid# rngsubtype#
TABLE pg.pg_proc oid# proname pronamespace# proowner# prokind proretset? prorettype# proargtypes* pronargs#
TABLE pg.pg_depend classid# objid# objsubid# refclassid# refobjid# refobjsubid# deptype
TABLE pg.pg_sequence seqrelid# seqtypid# seqstart# seqincrement# seqmax# seqmin# seqcache# seqcycle?
TABLE pg.pg_tables schemaname tablename tableowner tablespace hasindexes? hasrules? hastriggers? rowsecurity?
TABLE pg.pg_views schemaname viewname viewowner definition
TABLE pg.pg_matviews schemaname matviewname matviewowner definition
TABLE info.schemata catalog_name schema_name schema_owner
TABLE info.tables table_catalog table_schema table_name table_type is_insertable_into is_typed
TABLE info.views table_catalog table_schema table_name view_definition
TABLE info.columns table_catalog table_schema table_name column_name ordinal_position# column_default is_nullable data_type character_maximum_length# numeric_precision# numeric_scale# datetime_precision# udt_catalog udt_schema udt_name is_identity is_generated is_updatable
TABLE info.table_constraints constraint_catalog constraint_schema constraint_name table_schema table_name constraint_type
TABLE info.key_column_usage constraint_schema constraint_name table_schema table_name column_name ordinal_position#
TABLE info.constraint_column_usage table_schema table_name column_name constraint_schema constraint_name
TABLE info.referential_constraints constraint_schema constraint_name unique_constraint_schema unique_constraint_name
-- What stands in them: the table in the schema public, and synthetic rows in the schema of that name.
CREATE TABLE attributes AS FROM r;
CREATE TABLE own AS SELECT DISTINCT base, relname, schema, space, number, cardinality FROM (SELECT *, count(*) OVER () AS cardinality FROM attributes), (VALUES ('public', 2200, 16385), ('synthetic', 16384, 16386)) AS places (schema, space, number);
INSERT INTO pg.pg_namespace BY NAME SELECT space AS oid, schema AS nspname, 10 AS nspowner FROM own UNION SELECT 11, 'pg_catalog', 10;
INSERT INTO pg.pg_class BY NAME SELECT number AS oid, relname, space AS relnamespace, 10 AS relowner, 2 AS relam, 'r' AS relkind, 'p' AS relpersistence, cardinality AS relnatts, true AS relispopulated, 'd' AS relreplident FROM own;
INSERT INTO pg.pg_attribute BY NAME SELECT number AS attrelid, name AS attname, oid AS atttypid, typlen AS attlen, place AS attnum, -1 AS attstattarget, -1 AS attcacheoff, -1 AS atttypmod, true AS attislocal, 'p' AS attstorage FROM own, attributes JOIN kinds USING (kind) ORDER BY number, place;
INSERT INTO kinds VALUES ('', 19, 'name', 'name', 64, 'S'), ('', 21, 'int2', 'smallint', 2, 'N'), ('', 23, 'int4', 'integer', 4, 'N'), ('', 26, 'oid', 'oid', 4, 'N'), ('', 700, 'float4', 'real', 4, 'N'), ('', 1042, 'bpchar', 'character', -1, 'S'), ('', 1043, 'varchar', 'character varying', -1, 'S'), ('', 1083, 'time', 'time without time zone', 8, 'D'), ('', 1184, 'timestamptz', 'timestamp with time zone', 8, 'D'), ('', 1700, 'numeric', 'numeric', -1, 'N');
INSERT INTO pg.pg_type BY NAME SELECT DISTINCT oid, typname, 11 AS typnamespace, typlen, 'b' AS typtype, typcategory, true AS typisdefined, ',' AS typdelim, -1 AS typtypmod FROM kinds;
INSERT INTO pg.pg_database BY NAME SELECT DISTINCT 1 AS oid, base AS datname, 10 AS datdba, 6 AS encoding, true AS datallowconn, -1 AS datconnlimit, 'c' AS datlocprovider, 'C' AS datcollate, 'C' AS datctype FROM own;
INSERT INTO pg.pg_roles BY NAME SELECT 10 AS oid, 'pmw' AS rolname, true AS rolinherit, true AS rolcanlogin, -1 AS rolconnlimit;
INSERT INTO pg.pg_am BY NAME SELECT 2 AS oid, 'heap' AS amname, 't' AS amtype;
INSERT INTO pg.pg_settings (name, setting) VALUES ('server_version', '15.0'), ('server_version_num', '150000'), ('server_encoding', 'UTF8'), ('client_encoding', 'UTF8'), ('datestyle', 'ISO, MDY'), ('intervalstyle', 'postgres'), ('timezone', 'UTC'), ('integer_datetimes', 'on'), ('is_superuser', 'off'), ('standard_conforming_strings', 'on'), ('search_path', 'public'), ('max_identifier_length', '63'), ('max_index_keys', '32'), ('transaction_isolation', 'repeatable read'), ('transaction_read_only', 'on'), ('default_transaction_isolation', 'repeatable read'), ('default_transaction_read_only', 'on'), ('lc_collate', 'C'), ('statement_timeout', '0');
INSERT INTO pg.pg_tables BY NAME SELECT schema AS schemaname, relname AS tablename, 'pmw' AS tableowner FROM own;
INSERT INTO info.schemata SELECT base, schema, 'pmw' FROM own;
INSERT INTO info.tables SELECT base, schema, relname, 'BASE TABLE', 'NO', 'NO' FROM own;
INSERT INTO info.columns BY NAME SELECT own.base AS table_catalog, schema AS table_schema, own.relname AS table_name, name AS column_name, place AS ordinal_position, NULL AS column_default, 'YES' AS is_nullable, title AS data_type, own.base AS udt_catalog, 'pg_catalog' AS udt_schema, typname AS udt_name, 'NO' AS is_identity, 'NEVER' AS is_generated, 'NO' AS is_updatable FROM own, attributes JOIN kinds USING (kind) ORDER BY number, place;
-- Functions of Postgres, of these tables alone.
CREATE MACRO version() AS 'PostgreSQL 15.0 (online-pmw)';
CREATE MACRO current_schema() AS 'public';
CREATE MACRO current_schemas(a) AS ['public'];
CREATE MACRO regclass(a) AS coalesce(try_cast(a AS BIGINT), (SELECT oid FROM pg.pg_class WHERE relname = split_part(replace(a, '"', ''), '.', -1) AND (relnamespace = 2200) = NOT starts_with(a, 'synthetic.')));
CREATE MACRO to_regclass(a) AS regclass(a);
CREATE MACRO format_type(a, b) AS (SELECT any_value(title) FROM kinds WHERE oid = a);
CREATE MACRO pg_get_userbyid(a) AS 'pmw';
CREATE MACRO pg_table_is_visible(a) AS (a IN (SELECT oid FROM pg.pg_class WHERE relnamespace = 2200));
CREATE MACRO pg_encoding_to_char(a) AS 'UTF8';
CREATE MACRO pg_backend_pid() AS 1;
CREATE MACRO quote_ident(a) AS a;
CREATE MACRO array_to_string(a, b) AS '';
CREATE MACRO generate_subscripts(a, b) AS 1;
CREATE MACRO current_setting(a) AS (SELECT setting FROM pg.pg_settings WHERE name = lower(a)), (a, b) AS (SELECT setting FROM pg.pg_settings WHERE name = lower(a));
CREATE MACRO set_config(a, b, c) AS b;
