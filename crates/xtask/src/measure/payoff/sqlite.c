/* Work for the sqlite amalgamation: ROUNDS ROWS MIX. Mixes differ in their statements, so that training and reference can differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sqlite3 sqlite3;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_close(sqlite3 *);

static unsigned long sum;

static int row(void *unused, int columns, char **values, char **names)
{
    (void)unused, (void)names;
    for (int i = 0; i < columns; i++)
        if (values[i])
            sum = sum * 31 + strlen(values[i]) + (unsigned char)values[i][0];
    return 0;
}

static void run(sqlite3 *db, const char *sql)
{
    char *error = 0;
    if (sqlite3_exec(db, sql, row, 0, &error) != 0) {
        fprintf(stderr, "%s: %s\n", sql, error);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1, rows = argc > 2 ? atoi(argv[2]) : 1000, mix = argc > 3 ? atoi(argv[3]) : 0;
    for (int r = 0; r < rounds; r++) {
        sqlite3 *db;
        char sql[256];
        if (sqlite3_open(":memory:", &db) != 0)
            return 1;
        run(db, "create table t(a integer primary key, b text, c integer); create index i on t(c); begin");
        for (int i = 0; i < rows; i++) {
            snprintf(sql, sizeof sql, "insert into t values(%d, 'word%d', %d)", i, i * 7919 % 1000, i * 31 % 97);
            run(db, sql);
        }
        run(db, "commit; select count(*), sum(c) from t where b like '%9%'");
        for (int i = 0; i < 50; i++) {
            snprintf(sql, sizeof sql, mix ? "select max(a), min(b) from t where c = %d group by a %% 5 order by 2"
                                          : "select b, count(*) from t where c between %d and 60 group by b order by 2, 1 limit 9", i);
            run(db, sql);
        }
        run(db, mix ? "delete from t where a % 3 = 0; update t set c = c + 1" : "update t set b = b || 'x' where c < 9");
        sqlite3_close(db);
    }
    printf("%lu\n", sum);
    return 0;
}
