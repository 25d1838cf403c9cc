// A squarified treemap (Bruls, Huizing and van Wijk, 2000): rectangles in proportion to their values, as square as possible.

// The worst aspect ratio in a row of `sum`, from its smallest and largest area, along a side of length `side`.
const worst = (sum, least, most, side) => Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));

// values: positive numbers. Returns [{ x, y, width, height }] in their order, starting at the upper left.
export function squarify(values, { x, y, width, height }) {
  const whole = values.reduce((sum, value) => sum + value, 0);
  const areas = values.map((value) => (value / whole) * width * height);
  const places = [];
  let from = 0;
  while (from < areas.length) {
    const side = Math.min(width, height);
    let [sum, least, most, to] = [0, Infinity, 0, from];
    while (to < areas.length) {
      const area = areas[to];
      const ratio = worst(sum + area, Math.min(least, area), Math.max(most, area), side);
      if (to > from && ratio > worst(sum, least, most, side)) break;
      [sum, least, most, to] = [sum + area, Math.min(least, area), Math.max(most, area), to + 1];
    }
    const thick = side ? sum / side : 0;
    let along = 0;
    for (; from < to; from += 1) {
      const length = thick ? areas[from] / thick : 0;
      places.push(width < height ? { x: x + along, y, width: length, height: thick } : { x, y: y + along, width: thick, height: length });
      along += length;
    }
    if (width < height) [y, height] = [y + thick, height - thick];
    else [x, width] = [x + thick, width - thick];
  }
  return places;
}
