"""Which container formats a file may be, whatever its name says."""

MEDIA_FORMATS = (
    "mov,matroska,avi,mpeg,mpegvideo,mpegts,flv,ogg,asf,h264,hevc,wav,w64,mp3,flac,aac,aiff,caf"
)
"""FFmpeg demuxers that may be used. Playlists (HLS, concat …) are not among them: those would
make a hostile file open other files and addresses."""
