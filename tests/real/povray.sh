# needs: povray
# packages: povray
# A scene rendered by two threads. Its pictures differ in single pixels from run to run, so blocks are compared
# with a native one.
cat >a.pov <<'S'
#version 3.7; global_settings { assumed_gamma 1 }
camera { location <0,2,-5> look_at <0,1,0> } light_source { <5,9,-7> rgb 1 }
plane { y, 0 pigment { checker rgb 1 rgb .2 } finish { reflection .2 } }
#declare I = 0; #while (I < 9) sphere { <sin(I)*1.6, .5 + mod(I,3)*.6, cos(I)*1.6>, .45 pigment { rgb <I/9,.4,1-I/9> } finish { phong .8 reflection .3 } } #declare I = I + 1; #end
S
povray +Ia.pov +Oref.ppm +FP +W160 +H120 +A0.3 -J +WT2 -D 2>err || { tail -3 err; exit 1; }
t povray +Ia.pov +Oa.ppm +FP +W160 +H120 +A0.3 -J +WT2 -D 2>err || { tail -3 err; exit 1; }
cat >close.py <<'S'
def blocks(name):
    b = open(name, "rb").read()[-160 * 120 * 3:]
    return [sum(b[((y + v) * 160 + x + u) * 3 + c] for v in range(10) for u in range(10)) / 100 for y in range(0, 120, 10) for x in range(0, 160, 10) for c in range(3)]
a, b = blocks("ref.ppm"), blocks("a.ppm")
print(len(set(a)) > 100, max(abs(x - y) for x, y in zip(a, b)) < 6)
S
/usr/bin/python3 close.py
