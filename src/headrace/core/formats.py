"""Which container formats a file may be, whatever its name says."""

PICTURE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
"""Formats, as Pillow names them, that may be opened as pictures. No others: some start programs
(EPS), and what else a process has registered with Pillow differs from host to host."""

MEDIA_FORMATS = (
    "mov,matroska,avi,mpeg,mpegvideo,mpegts,flv,ogg,asf,h264,hevc,wav,w64,mp3,flac,aac,aiff,caf"
)
"""FFmpeg demuxers that may be used. Playlists (HLS, concat …) are not among them: those would
make a hostile file open other files and addresses."""
