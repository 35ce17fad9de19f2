// Small choices that outlive the page. A browser that keeps nothing is no error.

/** @param {string} key @param {string} otherwise @param {"localStorage"|"sessionStorage"} [where] */
export function stored(key, otherwise, where = "localStorage") {
  try {
    return globalThis[where]?.getItem(`headwater.${key}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** @param {string} key @param {string} value empty: forget it @param {"localStorage"|"sessionStorage"} [where] */
export function store(key, value, where = "localStorage") {
  try {
    if (value) globalThis[where].setItem(`headwater.${key}`, value);
    else globalThis[where].removeItem(`headwater.${key}`);
  } catch {
    // private windows may refuse; the choice then lasts as long as the page
  }
}
