// How numbers and times are written.

/** @param {number} value seconds */
export function seconds(value) {
  if (!(value >= 0)) return "";
  if (value < 0.9995) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const whole = Math.round(value);
  const minutes = Math.floor(whole / 60);
  const pad = (/** @type {number} */ one) => String(one).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${pad(whole % 60)} min`;
  return `${Math.floor(minutes / 60)}:${pad(minutes % 60)} h`;
}

/** @param {number} count of tokens */
export function tokens(count) {
  if (count < 1000) return String(count);
  if (count < 99_950) return `${(count / 1000).toFixed(1)}k`;
  return count < 999_500 ? `${Math.round(count / 1000)}k` : `${(count / 1e6).toFixed(1)}M`;
}

/** @param {number} bytes */
export function size(bytes) {
  return bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;
}

/** When it was, shortly. @param {number} ts Unix seconds @param {string} lang */
export function when(ts, lang) {
  const date = new Date(ts * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(lang, isToday ? { hour: "2-digit", minute: "2-digit" } : { month: "short", day: "numeric" });
}

/** Anything as one line. @param {any} value @param {number} [most] characters */
export function oneLine(value, most = 160) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return text.slice(0, most * 2).replace(/\s+/g, " ").slice(0, most);
}
