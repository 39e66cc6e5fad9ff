# needs: ffmpeg convert dot gnuplot
# packages: ffmpeg imagemagick graphviz gnuplot-nox
# Assembly by hand for every vector unit, chosen by CPUID, in pools of threads.
t ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=25:duration=2 -f lavfi -i sine=frequency=440:duration=2 -c:v mpeg4 -q:v 3 -c:a aac -flags +bitexact -fflags +bitexact -y a.mkv; md5sum <a.mkv
t ffmpeg -v error -i a.mkv -vf scale=160:120,hflip,boxblur=2 -f rawvideo -pix_fmt rgb24 -flags +bitexact -y - | md5sum; t ffmpeg -v error -i a.mkv -vn -f s16le - | md5sum
t ffmpeg -v error -i a.mkv -c:v libx264 -preset veryfast -x264-params threads=2:lookahead_threads=1 -an -bitexact -f h264 - | md5sum; t ffmpeg -v error -i a.mkv -c:v libvpx-vp9 -cpu-used 8 -frames:v 8 -an -bitexact -f ivf - | md5sum
t convert -size 300x200 plasma:red-blue -seed 7 -blur 0x3 -rotate 30 x.png 2>/dev/null || true; t convert -size 300x200 gradient:red-blue -blur 0x3 -rotate 30 -resize 50% -colorspace Lab -define png:exclude-chunks=date,time rgb:- | md5sum
(echo 'digraph g {'; for i in $(seq 120); do echo "n$((i * 7 % 61)) -> n$((i * 13 % 61));"; done; echo '}') >a.dot; t dot -Tplain a.dot | md5sum
echo 'set terminal svg; set samples 2000; splot sin(x)*cos(y)' | t gnuplot 2>/dev/null | md5sum
