# needs: povray
# packages: povray
# A scene rendered by two threads; the picture to the byte.
cat >a.pov <<'S'
#version 3.7; global_settings { assumed_gamma 1 }
camera { location <0,2,-5> look_at <0,1,0> } light_source { <5,9,-7> rgb 1 }
plane { y, 0 pigment { checker rgb 1 rgb .2 } finish { reflection .2 } }
#declare I = 0; #while (I < 9) sphere { <sin(I)*1.6, .5 + mod(I,3)*.6, cos(I)*1.6>, .45 pigment { rgb <I/9,.4,1-I/9> } finish { phong .8 reflection .3 } } #declare I = I + 1; #end
S
t povray +Ia.pov +Oa.ppm +FP +W160 +H120 +A0.3 +WT2 -D 2>err || { tail -3 err; exit 1; }
sha256sum a.ppm
