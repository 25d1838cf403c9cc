"""Detects the language of a text by its most frequent letters."""

from __future__ import annotations

import re

from turbohtml.detect import LanguageDetection, detect_language

# On program messages in the 60 supported languages, 97% are detected correctly with 100 characters, nearly all with
# 1,000. Other languages, such as Basque, are mistaken for a similar one. A menu or price list of a few words is too
# short for detection.
_SURE = LanguageDetection(threshold=0.7)
_LEAST = 80  # minimum characters of a text
_SAMPLE = 500  # characters to examine
_WORD, _SIGN = re.compile(r"[^\W\d_]+"), re.compile(r"[!-@\[-`{-~]")
# ISO 639-1 codes by ISO 639-3, as used in ``lang`` attributes.
_CODES = """
    afr=af aka=ak amh=am ara=ar aze=az azj=az bel=be ben=bn bos=bs bul=bg cat=ca ces=cs ckb=ku cmn=zh cym=cy dan=da
    deu=de ell=el eng=en epo=eo est=et ekk=et eus=eu fas=fa pes=fa fin=fi fra=fr gle=ga glg=gl guj=gu hat=ht hau=ha
    heb=he hin=hi hrv=hr hun=hu hye=hy ibo=ig ind=id isl=is ita=it jav=jv jpn=ja kan=kn kat=ka kaz=kk khm=km kin=rw
    kir=ky kor=ko kur=ku lao=lo lat=la lav=lv lvs=lv lit=lt mal=ml mar=mr mkd=mk mlg=mg mlt=mt mon=mn msa=ms zlm=ms
    mya=my nep=ne npi=ne nld=nl nno=nn nob=nb nor=no nya=ny ori=or pan=pa pol=pl por=pt pus=ps ron=ro run=rn rus=ru
    sin=si slk=sk slv=sl sna=sn snd=sd som=so sot=st spa=es sqi=sq srp=sr sun=su swa=sw swh=sw swe=sv tam=ta tat=tt
    tel=te tgk=tg tgl=tl tha=th tir=ti tuk=tk tur=tr uig=ug ukr=uk urd=ur uzb=uz uzn=uz vie=vi xho=xh yid=yi ydd=yi
    yor=yo zul=zu
"""
_SHORT = dict(pair.split("=") for pair in _CODES.split())


def language_of(text: str) -> str | None:
    """Return the language of a text as an ISO 639 code, or None if it is uncertain."""
    sample = text[:_SAMPLE]
    found = detect_language(sample, _SURE).language if len(text) >= _LEAST and _is_prose(sample) else None
    return None if found is None else _SHORT.get(found, found)


def _is_prose(text: str) -> bool:
    """Return True if the text is more than a list of names or numbers: at most half of it is digits and punctuation,
    and at most two thirds of the words are capitalised. No sample of program messages in 118 languages exceeds these
    limits."""
    words = _WORD.findall(text)
    capitals = sum(word[0].isupper() for word in words)
    return 2 * len(_SIGN.findall(text)) <= len(text) - text.count(" ") and 3 * capitals <= 2 * len(words)
