// build: -O2 | -O2 -static | -O2 -no-pie
// Recursion, an indirect call, a tail call, a jump table and data-dependent branches, with counts that can be reasoned out.
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int f(int n){ if(n<2) return n; return f(n-1)+f(n-2);}
__attribute__((noinline)) int g(int n){ return f(n); }
int (*fp)(int)=g;
int main(int c,char**v){ int s=0; for(int i=0;i<12;i++){ s+=fp(i); switch(i%6){case 0:s+=1;break;case 1:s*=3;break;case 2:s^=9;break;case 3:s-=4;break;case 4:s=s*s;break;case 5:s|=8;} if(s&1) s+=rand()&1;} printf("%d\n",s);}
