BEGIN TRANSACTION;
CREATE TABLE answers (sequence INTEGER PRIMARY KEY, request_id TEXT UNIQUE, query_key BLOB NOT NULL,
    query TEXT NOT NULL, count REAL NOT NULL, low REAL, high REAL, confidence REAL NOT NULL,
    source TEXT NOT NULL, version INTEGER NOT NULL, share REAL NOT NULL) STRICT;
INSERT INTO "answers" VALUES(1,'r0',X'14BBEF792BDC5B6463E6842B32BA5E9F16CB5B29DBC23671492A708AC28C548B','{"factors":[]}',2.99937832219788697322e+03,2.98831426885771679743e+03,3.01044237553805714923e+03,0.95,'synthetic',0,1.09999985979197648089e-01);
INSERT INTO "answers" VALUES(2,'r27',X'9F4ADDB6480B87A182EB47CDDE7E0757965F717629E2DFC31678B36B90D0CF44','{"factors":[[["age"],[[2,4,1048576]]],[["member"],[[0,1,1048576]]]]}',1.42100595569610595701e+03,1.40436399740247543381e+03,1.4376479139897364803e+03,0.95,'measured',1,2.58333308075280654314e-01);
INSERT INTO "answers" VALUES(3,'r12',X'4FCC044DC57C6B49B84C44B7DB6EA5D8E3A27223737AB94CCBF136D3A0E14B2A','{"factors":[[["sex"],[[1,2,1048576]]]]}',1.48799460492381149375e+03,1.46688372797350530165e+03,1.5091054818741176859e+03,0.95,'synthetic',1,2.58333308075280654314e-01);
INSERT INTO "answers" VALUES(4,'r31',X'4D865BD9A3919C86CDF107690CC0B6785A22C6082BD788337B345F0D6887F6D7','{"factors":[[["age"],[[2,4,1048576]]],[["member"],[[1,2,1048576]]]]}',7.26423273086547851553e+01,5.60003690150243755869e+01,89.2842856022852,0.95,'measured',2,4.06666630171363618906e-01);
CREATE TABLE certificates (sequence INTEGER PRIMARY KEY, scope TEXT UNIQUE NOT NULL,
    version INTEGER NOT NULL, threshold INTEGER NOT NULL, units BLOB NOT NULL) STRICT;
CREATE TABLE intents (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, proposal TEXT NOT NULL,
    seed BLOB NOT NULL) STRICT;
CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL, event TEXT NOT NULL,
    label TEXT NOT NULL, epsilon TEXT, rho TEXT NOT NULL) STRICT;
INSERT INTO "ledger" VALUES(1,1,'total','number of records',NULL,'449197290107191/144115188075855872');
INSERT INTO "ledger" VALUES(2,1,'marginal','sex',NULL,'11024855677135423/1152921504606846976');
INSERT INTO "ledger" VALUES(3,1,'marginal','age',NULL,'13886070342671915/1152921504606846976');
INSERT INTO "ledger" VALUES(4,1,'marginal','member',NULL,'11024855677135423/1152921504606846976');
INSERT INTO "ledger" VALUES(5,2,'sparse vector round','threshold noise drawn','1079673815040/3851102146259','22654517138425809/576460752303423488');
INSERT INTO "ledger" VALUES(6,2,'measurement','age 40 to 59 and member true',NULL,'3997855766791013/576460752303423488');
INSERT INTO "ledger" VALUES(7,3,'sparse vector round','threshold noise drawn','1079673815040/3851102146259','22654517138425809/576460752303423488');
INSERT INTO "ledger" VALUES(8,3,'measurement','age 40 to 59 and member false',NULL,'3997855766791013/576460752303423488');
CREATE TABLE measurements (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL, kind TEXT NOT NULL,
    what TEXT NOT NULL, units BLOB NOT NULL, noise TEXT NOT NULL) STRICT;
INSERT INTO "measurements" VALUES(1,1,'total','[]',X'932687BB00000000','{"law":"discrete_gaussian","sigma":"13280708"}');
INSERT INTO "measurements" VALUES(2,1,'marginal','["sex"]',X'A12AE55E000000007CED6E5D00000000','{"law":"discrete_gaussian","sigma":"7582254"}');
INSERT INTO "measurements" VALUES(3,1,'marginal','["age"]',X'A1D516300000000005C1F82D00000000BD95AF2D000000006BEC052F00000000','{"law":"discrete_gaussian","sigma":"6756085"}');
INSERT INTO "measurements" VALUES(4,1,'marginal','["member"]',X'4F31665800000000271D966200000000','{"law":"discrete_gaussian","sigma":"7582254"}');
INSERT INTO "measurements" VALUES(5,2,'query','{"factors":[[["age"],[[2,4,1048576]]],[["member"],[[0,1,1048576]]]]}',X'6518D05800000000E8BDFF2B00000000','{"law":"discrete_gaussian","sigma":"8903407"}');
INSERT INTO "measurements" VALUES(6,3,'query','{"factors":[[["age"],[[2,4,1048576]]],[["member"],[[1,2,1048576]]]]}',X'F9468A040000000061B77E0C00000000','{"law":"discrete_gaussian","sigma":"8903407"}');
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO "meta" VALUES('asked','4');
INSERT INTO "meta" VALUES('holder','"6c9c580bfca899f73fa1a29f7f272c2177f210c4258408c689b724b1fb95d10f"');
INSERT INTO "meta" VALUES('contract','{"schema":"name = \"people\"\n\n[[attributes]]\nname = \"sex\"\nkind = \"categorical\"\nvalues = [\"Female\", \"Male\"]\n\n[[attributes]]\nname = \"age\"\nkind = \"integer\"\nmin = 20\nmax = 59\nwidth = 10\n\n[[attributes]]\nname = \"member\"\nkind = \"categorical\"\nvalues = [true, false]\n","epsilon":"5","delta":"1/1000000000","options":{"neighboring_relation":"add_remove","records_per_person":1,"update":"refit","opening":"one-way","update_limit":6,"threshold":100.0,"learning_rate":null,"sparse_vector":null,"sides":null,"composition":"zcdp","expected_queries":10000,"confidence":0.95,"test":"query","model":"auto","max_cells":null,"simultaneous":false,"seed":null}}');
INSERT INTO "meta" VALUES('opening_plan','{"total":{"law":"discrete_gaussian","sigma":"13280708"},"marginals":{"sex":{"law":"discrete_gaussian","sigma":"7582254"},"age":{"law":"discrete_gaussian","sigma":"6756085"},"member":{"law":"discrete_gaussian","sigma":"7582254"}},"trees":{},"table":null}');
INSERT INTO "meta" VALUES('data','null');
INSERT INTO "meta" VALUES('test_plan','{"sech2":false,"noise":"exponential","sides":"two-thresholds","sensitivity":1048576,"monotone":true,"threshold_scale":"10734211","query_scale":"5740304","update_limit":6,"redraw":true,"value_noise":{"law":"discrete_gaussian","sigma":"8903407"},"threshold":104857600,"learning_rate":0.1333609691847368}');
CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
INSERT INTO "secrets" VALUES('fingerprint_key',X'E16DC7F81414DB315E951185DF6C12E7A75ADD8D7E044671A051476A2C3AA3E3');
INSERT INTO "secrets" VALUES('fingerprint',X'9071A0D286D9FE511FBBD3101A76003125FC04FC2588D90AF0FDB99ED7CB541C');
CREATE TABLE snapshots (version INTEGER PRIMARY KEY, duals BLOB NOT NULL, checksum BLOB NOT NULL) STRICT;
INSERT INTO "snapshots" VALUES(2,X'0848E7F816D17F3F84B26D11670880BF9B06F85AA891E73F31B9CC6A1D22E63F0CB5DDEF1A0AE3BF7DA18705A91EE2BFBB487A266B8AFCBF098E830A8BD5FD3F0000BCA4AE9B13405474B2FED5A3FABF',X'5F9753359AC83B0D84C1BE67621273423958E51CE81C742F47F948667358D62B');
CREATE INDEX answers_by_query ON answers (query_key);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('intents',3);
COMMIT;
PRAGMA application_id = 1347245907;
PRAGMA user_version = 2;
