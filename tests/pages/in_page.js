// What a reader of this page would miss, as lines of text: text that is cut off, covers other text, is hard to read or
// too small; a page wider than its window; red on what did not fail. All of it is on show: details are open, and the
// window is as high as the page.
(() => {
  const findings = [];
  const described = (element) => {
    const css = (element.getAttribute('class') || '').trim().replace(/\s+/g, '.');
    return `<${element.tagName.toLowerCase()}${css && '.' + css}>`;
  };
  const words = (text) => JSON.stringify(text.trim().replace(/\s+/g, ' ').slice(0, 60));
  const found = (what, element, text) => findings.push(`${what}: ${described(element)} ${words(text)}`);

  if (document.documentElement.scrollWidth > innerWidth) {
    findings.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);
  }

  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const colours = new Map();
  const rgba = (colour) => {  // 0 to 255, and opacity 0 to 1
    if (!colours.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      colours.set(colour, {rgb: [r, g, b], opacity: a / 255});
    }
    return colours.get(colour);
  };
  const over = (top, opacity, below) => top.map((c, i) => c * opacity + below[i] * (1 - opacity));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const opacityOf = (element) => {
    let product = 1;
    for (let e = element; e; e = e.parentElement) product *= Number(getComputedStyle(e).opacity);
    return product;
  };
  const isRed = ({rgb: [r, g, b], opacity}) => {
    const range = r - Math.min(g, b);
    return opacity > 0 && r > g && r > b && range > 60 && Math.abs(g - b) < 0.4 * range;
  };
  const isShape = (element) => element instanceof SVGGeometryElement;

  // The colour below a point, from the page's up. Layers above the element are left out.
  const ground = (x, y, element) => {
    const layers = document.elementsFromPoint(x, y);
    const at = layers.indexOf(element);
    let below = [255, 255, 255];
    for (const layer of layers.slice(at < 0 ? 0 : at).reverse()) {
      if (layer === element && element instanceof SVGElement) continue;
      const style = getComputedStyle(layer);
      const paint = isShape(layer) ? style.fill : style.backgroundColor;
      if (paint === 'none' || paint.startsWith('url')) continue;
      const {rgb, opacity} = rgba(paint);
      const share = isShape(layer) ? Number(style.fillOpacity) * opacityOf(layer) : 1;
      below = over(rgb, opacity * share, below);
    }
    return below;
  };

  // Each piece of text with the box that is seen of it: cut off where an element around it cuts it.
  const pieces = [];
  const seen = new Map();
  const view = (element) => {
    if (seen.has(element)) return seen.get(element);
    const above = element.parentElement ? view(element.parentElement) : {left: 0, right: 1e9, top: 0, bottom: 1e9};
    const style = getComputedStyle(element);
    const isInside = element !== document.body && element !== document.documentElement;
    const cuts = isInside && style.overflowX !== 'visible' && (style.display !== 'inline' || element.tagName === 'svg');
    let box = above;
    if (cuts) {
      const r = element.getBoundingClientRect();
      box = {left: Math.max(above.left, r.left), right: Math.min(above.right, r.right),
             top: Math.max(above.top, r.top), bottom: Math.min(above.bottom, r.bottom)};
      // Its reader can scroll; or nobody ever sees the rest.
      box.scrolls = above.scrolls || style.overflowX === 'auto' || style.overflowX === 'scroll';
    }
    seen.set(element, box);
    return box;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.data.trim() || ['SCRIPT', 'STYLE', 'title'].includes(element.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const style = getComputedStyle(element);
    if (style.visibility === 'hidden') continue;
    const size = parseFloat(style.fontSize) * (element.getScreenCTM ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1);
    const box = view(element);
    let isFirst = true;
    for (const r of range.getClientRects()) {
      if (r.width === 0 || r.height === 0) continue;
      if (isFirst && size < 10.9) found(`text of ${size.toFixed(1)} px`, element, node.data);
      const out = Math.max(box.left - r.left, r.right - box.right, box.top - r.top, r.bottom - box.bottom);
      if (!box.scrolls && out > 1.5) found(`cut off by ${out.toFixed(0)} px`, element, node.data);
      const left = Math.max(r.left, box.left), right = Math.min(r.right, box.right);
      const x = (left + right) / 2, y = (r.top + r.bottom) / 2;
      if (isFirst && right - left > 2) {
        const {rgb, opacity} = rgba(element instanceof SVGElement ? style.fill : style.color);
        const below = ground(x, y, element);
        const ratio = contrast(over(rgb, opacity * opacityOf(element), below), below);
        if (ratio < 4.5) found(`contrast of ${ratio.toFixed(2)}`, element, node.data);
      }
      // Lines of letters are less high than their boxes.
      if (right - left > 2) {
        // Words of a picture need a gap; those of a text may follow one another.
        const gap = element instanceof SVGElement ? -1.5 : 1;
        pieces.push({element, text: node.data, left: left + gap, right: right - gap, top: r.top + 0.28 * r.height, bottom: r.bottom - 0.28 * r.height});
      }
      isFirst = false;
    }
  }
  pieces.sort((a, b) => a.top - b.top);
  for (let i = 0; i < pieces.length; ++i) {
    const a = pieces[i];
    for (let j = i + 1; j < pieces.length && pieces[j].top < a.bottom; ++j) {
      const b = pieces[j];
      if (a.left < b.right && b.left < a.right) found(`covers ${words(b.text)}`, a.element, a.text);
    }
  }

  // An element that hides what it has no room for.
  for (const element of document.querySelectorAll('body *')) {
    const style = getComputedStyle(element);
    if (['hidden', 'clip'].includes(style.overflowX) && element.scrollWidth > element.clientWidth + 1 && !(element instanceof SVGElement)) {
      found(`hides ${element.scrollWidth - element.clientWidth} px`, element, element.textContent);
    }
    const isPainted = isShape(element) ? [style.fill, style.stroke] : [style.backgroundColor, style.color, style.borderTopWidth === '0px' ? 'none' : style.borderTopColor];
    const isOfFailure = element.closest('.bad, .failed, .wrong, .unmet, .failure, .x0, .x1');
    if (!isOfFailure && isPainted.some((paint) => paint !== 'none' && !paint.startsWith('url') && isRed(rgba(paint)))) {
      found('red, and no failure', element, element.textContent);
    }
  }
  return [...new Set(findings)];
})()
