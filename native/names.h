/* What the names of tags mean. Written by make_names.py, which says how to look here: do not edit. */

#ifndef CRAWLER_NATIVE_NAMES_H
#define CRAWLER_NATIVE_NAMES_H

#include <stdint.h>

#include "markup.h"

#define NAME_SHIFT 56

struct name {
    uint64_t name;
    enum tag tag;
};

#define NAMES_MULTIPLIER UINT64_C(0x35bf992dc9e9c617)

static const struct name names[256] = {
    [1] = {0x6465626d656f6e, TAG_RAW}, /* noembed */
    [12] = {0x65736162, TAG_BASE}, /* base */
    [23] = {0x677673, TAG_SVG}, /* svg */
    [24] = {0x6f69647561, TAG_AUDIO}, /* audio */
    [28] = {0x74656c707061, TAG_MARKER}, /* applet */
    [30] = {0x73656d6172666f6e, TAG_RAW}, /* noframes */
    [38] = {0x656d61726669, TAG_IFRAME}, /* iframe */
    [39] = {0x7463656a626f, TAG_OBJECT}, /* object */
    [48] = {0x6c6d7468, TAG_HTML}, /* html */
    [49] = {0x6874, TAG_CELL_TH}, /* th */
    [50] = {0x6474, TAG_CELL_TD}, /* td */
    [55] = {0x6b6e696c, TAG_LINK}, /* link */
    [60] = {0x6174656d, TAG_META}, /* meta */
    [65] = {0x676d69, TAG_IMG}, /* img */
    [83] = {0x656c746974, TAG_TITLE}, /* title */
    [87] = {0x656c797473, TAG_RAW}, /* style */
    [92] = {0x6465626d65, TAG_EMBED}, /* embed */
    [93] = {0x61, TAG_A}, /* a */
    [112] = {0x79646f6274, TAG_SECTION_BODY}, /* tbody */
    [113] = {0x6e6f6974706163, TAG_CAPTION}, /* caption */
    [117] = {0x746f6f6674, TAG_SECTION_FOOT}, /* tfoot */
    [120] = {0x61657261, TAG_AREA}, /* area */
    [123] = {0x6c6f63, TAG_COLUMN}, /* col */
    [126] = {0x6874616d, TAG_MATH}, /* math */
    [127] = {0x747069726373, TAG_SCRIPT}, /* script */
    [134] = {0x746573656d617266, TAG_FRAMESET}, /* frameset */
    [145] = {0x656c626174, TAG_TABLE}, /* table */
    [146] = {0x6565757172616d, TAG_MARKER}, /* marquee */
    [173] = {0x7274, TAG_ROW}, /* tr */
    [191] = {0x6567616d69, TAG_IMAGE}, /* image */
    [199] = {0x70756f72676c6f63, TAG_COLUMNS}, /* colgroup */
    [202] = {0x706d78, TAG_RAW}, /* xmp */
    [203] = {0x6574616c706d6574, TAG_TEMPLATE}, /* template */
    [206] = {0x7475706e69, TAG_INPUT}, /* input */
    [207] = {0x6f65646976, TAG_VIDEO}, /* video */
    [209] = {0x6b63617274, TAG_TRACK}, /* track */
    [216] = {0x6461656874, TAG_SECTION_HEAD}, /* thead */
    [238] = {0x656372756f73, TAG_SOURCE}, /* source */
    [239] = {0x656d617266, TAG_FRAME}, /* frame */
    [249] = {0x6165726174786574, TAG_RAW}, /* textarea */
};

#define BREAKING_NAMES_MULTIPLIER UINT64_C(0x91b7584a2265b1f5)

static const struct name breaking_names[256] = {
    [1] = {0x3268, TAG_BREAKS_OUT}, /* h2 */
    [13] = {0x627573, TAG_BREAKS_OUT}, /* sub */
    [18] = {0x7265746e6563, TAG_BREAKS_OUT}, /* center */
    [21] = {0x746e6f66, TAG_BREAKS_OUT}, /* font */
    [27] = {0x7474, TAG_BREAKS_OUT}, /* tt */
    [39] = {0x3568, TAG_BREAKS_OUT}, /* h5 */
    [50] = {0x756e656d, TAG_BREAKS_OUT}, /* menu */
    [58] = {0x657270, TAG_BREAKS_OUT}, /* pre */
    [68] = {0x6c64, TAG_BREAKS_OUT}, /* dl */
    [74] = {0x3168, TAG_BREAKS_OUT}, /* h1 */
    [85] = {0x676e697473696c, TAG_BREAKS_OUT}, /* listing */
    [109] = {0x7262, TAG_BREAKS_OUT}, /* br */
    [112] = {0x3468, TAG_BREAKS_OUT}, /* h4 */
    [117] = {0x73, TAG_BREAKS_OUT}, /* s */
    [129] = {0x676962, TAG_BREAKS_OUT}, /* big */
    [133] = {0x79627572, TAG_BREAKS_OUT}, /* ruby */
    [135] = {0x6c6f, TAG_BREAKS_OUT}, /* ol */
    [138] = {0x6464, TAG_BREAKS_OUT}, /* dd */
    [141] = {0x6d65, TAG_BREAKS_OUT}, /* em */
    [149] = {0x65646f63, TAG_BREAKS_OUT}, /* code */
    [152] = {0x75, TAG_BREAKS_OUT}, /* u */
    [172] = {0x696c, TAG_BREAKS_OUT}, /* li */
    [177] = {0x676e6f727473, TAG_BREAKS_OUT}, /* strong */
    [185] = {0x3368, TAG_BREAKS_OUT}, /* h3 */
    [192] = {0x70, TAG_BREAKS_OUT}, /* p */
    [194] = {0x656b69727473, TAG_BREAKS_OUT}, /* strike */
    [195] = {0x6c6c616d73, TAG_BREAKS_OUT}, /* small */
    [196] = {0x69, TAG_BREAKS_OUT}, /* i */
    [200] = {0x62, TAG_BREAKS_OUT}, /* b */
    [206] = {0x79646f62, TAG_BREAKS_OUT}, /* body */
    [209] = {0x766964, TAG_BREAKS_OUT}, /* div */
    [215] = {0x7268, TAG_BREAKS_OUT}, /* hr */
    [223] = {0x3668, TAG_BREAKS_OUT}, /* h6 */
    [225] = {0x707573, TAG_BREAKS_OUT}, /* sup */
    [235] = {0x72626f6e, TAG_BREAKS_OUT}, /* nobr */
    [241] = {0x64616568, TAG_BREAKS_OUT}, /* head */
    [242] = {0x6c75, TAG_BREAKS_OUT}, /* ul */
    [243] = {0x726176, TAG_BREAKS_OUT}, /* var */
    [250] = {0x6e617073, TAG_BREAKS_OUT}, /* span */
    [255] = {0x7464, TAG_BREAKS_OUT}, /* dt */
};

#define ANCHOR_NAMES_MULTIPLIER UINT64_C(0xe4264c9ffade312d)

static const struct name anchor_names[256] = {
    [4] = {0x3168, TAG_HEADING}, /* h1 */
    [5] = {0x6e617073, TAG_INLINE}, /* span */
    [12] = {0x6c6562616c, TAG_INLINE}, /* label */
    [22] = {0x6e6f6974636573, TAG_BLOCK}, /* section */
    [25] = {0x656b69727473, TAG_INLINE}, /* strike */
    [37] = {0x7265746f6f66, TAG_BLOCK}, /* footer */
    [38] = {0x766964, TAG_BLOCK}, /* div */
    [40] = {0x6c6c616d73, TAG_INLINE}, /* small */
    [42] = {0x3268, TAG_HEADING}, /* h2 */
    [61] = {0x726564616568, TAG_BLOCK}, /* header */
    [69] = {0x75, TAG_INLINE}, /* u */
    [74] = {0x736c6961746564, TAG_BLOCK}, /* details */
    [77] = {0x6e6f74747562, TAG_BUTTON}, /* button */
    [78] = {0x6e6664, TAG_INLINE}, /* dfn */
    [80] = {0x3368, TAG_HEADING}, /* h3 */
    [81] = {0x6d65, TAG_INLINE}, /* em */
    [83] = {0x627573, TAG_INLINE}, /* sub */
    [86] = {0x62, TAG_INLINE}, /* b */
    [100] = {0x7262, TAG_EMPTY}, /* br */
    [116] = {0x736e69, TAG_INLINE}, /* ins */
    [117] = {0x73736572646461, TAG_BLOCK}, /* address */
    [119] = {0x3468, TAG_HEADING}, /* h4 */
    [121] = {0x74757074756f, TAG_INLINE}, /* output */
    [125] = {0x73, TAG_INLINE}, /* s */
    [128] = {0x6d796e6f726361, TAG_INLINE}, /* acronym */
    [132] = {0x707573, TAG_INLINE}, /* sup */
    [133] = {0x6f6462, TAG_INLINE}, /* bdo */
    [134] = {0x676e6f727473, TAG_INLINE}, /* strong */
    [140] = {0x6564697361, TAG_BLOCK}, /* aside */
    [142] = {0x6c6564, TAG_INLINE}, /* del */
    [147] = {0x69, TAG_INLINE}, /* i */
    [157] = {0x3568, TAG_HEADING}, /* h5 */
    [158] = {0x706d6173, TAG_INLINE}, /* samp */
    [164] = {0x6b72616d, TAG_INLINE}, /* mark */
    [165] = {0x65727574636970, TAG_INLINE}, /* picture */
    [173] = {0x7265746e6563, TAG_BLOCK}, /* center */
    [174] = {0x72626261, TAG_INLINE}, /* abbr */
    [180] = {0x71, TAG_INLINE}, /* q */
    [186] = {0x696462, TAG_INLINE}, /* bdi */
    [188] = {0x7474, TAG_INLINE}, /* tt */
    [195] = {0x3668, TAG_HEADING}, /* h6 */
    [198] = {0x65746963, TAG_INLINE}, /* cite */
    [203] = {0x726176, TAG_INLINE}, /* var */
    [208] = {0x70, TAG_PARAGRAPH}, /* p */
    [210] = {0x6e69616d, TAG_BLOCK}, /* main */
    [212] = {0x656d6974, TAG_INLINE}, /* time */
    [214] = {0x726277, TAG_EMPTY}, /* wbr */
    [221] = {0x76616e, TAG_BLOCK}, /* nav */
    [224] = {0x676962, TAG_INLINE}, /* big */
    [226] = {0x65646f63, TAG_INLINE}, /* code */
    [236] = {0x746e6f66, TAG_INLINE}, /* font */
    [239] = {0x657275676966, TAG_BLOCK}, /* figure */
    [243] = {0x64626b, TAG_INLINE}, /* kbd */
    [248] = {0x61746164, TAG_INLINE}, /* data */
    [250] = {0x7972616d6d7573, TAG_BLOCK}, /* summary */
    [254] = {0x656c6369747261, TAG_BLOCK}, /* article */
};

#endif
