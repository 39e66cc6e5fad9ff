/* Runs a Lua script with two arguments: an interpreter without its command line. */
#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    lua_State *lua = luaL_newstate();
    if (argc < 4 || !lua)
        return 2;
    luaL_openlibs(lua);
    lua_pushstring(lua, argv[2]);
    lua_setglobal(lua, "rounds");
    lua_pushstring(lua, argv[3]);
    lua_setglobal(lua, "mix");
    if (luaL_dofile(lua, argv[1])) {
        fprintf(stderr, "%s\n", lua_tostring(lua, -1));
        return 1;
    }
    lua_close(lua);
    return 0;
}
